"""Which of many snapshots to return: the rule of Cotter et al. (JMLR 2019) for constrained problems.

Each snapshot has an objective and a largest violation, clipped at zero. Both are ranked (equal values share the
smallest rank), a snapshot counts by the worse of its two ranks, and the best such rank wins; among equals the smaller
objective, then the later snapshot. Without ranks of objectives the smallest violation wins.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Candidates:
    """All snapshots by their numbers, and the points of those that can still win."""

    objectives: Tensor
    """`(snapshots,)`."""
    violations: Tensor
    """`(snapshots,)`, the largest violation of each, clipped at zero."""
    kept: Tensor
    """`(points,)`, which snapshots the points belong to, in increasing order."""
    points: Tensor
    """`(points, d)`."""


def no_candidates(point: Tensor) -> Candidates:
    """Return the empty collection, for points like `point`."""
    none = point.new_zeros(0)
    return Candidates(none, none, none.to(torch.int64), point.new_zeros(0, len(point)))


def add_candidate(
    candidates: Candidates,
    point: Tensor,
    objective: Tensor,
    violation: Tensor,
    *,
    rank_objectives: bool,
    capacity: int,
) -> Candidates:
    """Return the candidates with one more.

    A point is let go once another is as good in both respects and smaller in the objective or later: the rule will
    never choose it. Beyond `capacity` the points that the rule likes least go too, which may cost the eventual winner.
    The numbers of all snapshots stay, because they decide the ranks.
    """
    violation = violation.clamp(min=0.0)
    objectives = torch.cat([candidates.objectives, objective.reshape(1)])
    violations = torch.cat([candidates.violations, violation.reshape(1)])
    kept = torch.cat([candidates.kept, candidates.kept.new_tensor([len(objectives) - 1])])
    points = torch.cat([candidates.points, point[None]])
    # The newcomer is the latest, so that it beats whatever it equals.
    new_objective, new_violation = _comparable(objective), _comparable(violation)
    old_objectives, old_violations = _comparable(objectives[kept[:-1]]), _comparable(violations[kept[:-1]])
    beaten = (new_objective <= old_objectives) & (new_violation <= old_violations)
    useless = (old_objectives < new_objective) & (old_violations <= new_violation)
    stays = torch.cat([~beaten, ~useless.any().reshape(1)])
    kept, points = kept[stays], points[stays]
    # Ordered by violation alone, one winner needs no further point.
    capacity = capacity if rank_objectives else 1
    if len(kept) > capacity:
        order = _preference(objectives, violations, rank_objectives)
        liked = order[torch.isin(order, kept)][:capacity].sort().values
        points = points[torch.isin(kept, liked)]
        kept = liked
    return Candidates(objectives, violations, kept, points)


def best_point(candidates: Candidates, *, rank_objectives: bool) -> Tensor | None:
    """Return the point of the best snapshot whose point is kept, ranked among all; `None` without snapshots."""
    if not len(candidates.kept):
        return None
    order = _preference(candidates.objectives, candidates.violations, rank_objectives)
    best = order[torch.isin(order, candidates.kept)][0]
    return candidates.points[int((candidates.kept == best).nonzero())]


def _preference(objectives: Tensor, violations: Tensor, rank_objectives: bool) -> Tensor:
    """Return the positions of the snapshots, the best first."""
    objectives = _comparable(objectives)
    worst = _ranks(_comparable(violations).clamp(min=0.0))
    if rank_objectives:
        worst = torch.maximum(worst, _ranks(objectives))
    # Stable sorts from the last criterion to the first; reversed, so that among equals the later comes first.
    order = torch.arange(len(objectives) - 1, -1, -1, device=objectives.device)
    order = order[objectives[order].argsort(stable=True)]
    return order[worst[order].argsort(stable=True)]


def _ranks(values: Tensor) -> Tensor:
    """Return one plus the number of smaller values."""
    return torch.searchsorted(values.sort().values, values) + 1


def _comparable(values: Tensor) -> Tensor:
    return torch.where(values.isnan(), torch.inf, values)
