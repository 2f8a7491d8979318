"""Every two solvers of a board, run by run with the same seeds."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from drobench.results.comparison.metrics import value_of
from drobench.results.comparison.paired import ALPHA, detectable_difference, holm, signed_rank_p
from drobench.results.comparison.rows import Comparison, Summary
from drobench.results.comparison.standings import Achievement, Standing, signed_differences
from drobench.results.record import FAILURES, Iterate, Record

_VIOLATION = "train_max_violation"
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class PairedRun:
    """One run of a solver with one of the seeds that all solvers share."""

    record: Record
    point: Iterate | None
    standing: Standing

    @property
    def cost(self) -> float:
        """What reaching the target cost, infinite if the run did not."""
        return self.standing.amount if self.standing.achievement is Achievement.REACHED else math.inf

    def value(self, metric: str) -> float | None:
        """A metric of its iterate, infinite if the run failed."""
        return math.inf if self.record.status in FAILURES else value_of(self.point, metric)


def comparisons(
    ordered: Sequence[str],
    runs: Mapping[str, Sequence[PairedRun]],
    measure: str,
    cost: str,
    more: bool = False,
) -> list[Comparison]:
    """Test all pairs of solvers.

    Args:
        ordered: Labels, best first.
        runs: For each label, the runs in the order of the seeds.
        measure: The metric that decides between feasible runs.
        cost: The name of the cost of reaching the target.
        more: Whether more of the measure is better.
    """
    found, samples = [], []
    for better, worse in itertools.combinations(ordered, 2):
        differences = signed_differences(*([run.standing for run in runs[label]] for label in (better, worse)))
        quantity, effects = _effects(runs[better], runs[worse], measure, cost, more)
        samples.append(effects)
        found.append(
            Comparison(
                better=better,
                worse=worse,
                pairs=len(differences),
                wins=sum(difference > 0 for difference in differences),
                losses=sum(difference < 0 for difference in differences),
                p_value=signed_rank_p(differences),
                p_adjusted=1.0,
                significant=False,
                quantity=quantity,
                effect=None,
                detectable=_detectable(effects, quantity == cost),
            )
        )
    adjusted = holm([comparison.p_value for comparison in found])
    summaries = iter(Summary.of_many([effects for effects in samples if effects]))
    return [
        replace(
            comparison,
            p_adjusted=p_value,
            significant=p_value <= ALPHA,
            effect=next(summaries) if effects else None,
        )
        for comparison, p_value, effects in zip(found, adjusted, samples, strict=True)
    ]


def _effects(
    better: Sequence[PairedRun], worse: Sequence[PairedRun], measure: str, cost: str, more: bool
) -> tuple[str, list[float]]:
    """What decided between the two on most pairs, and by how much on each."""
    pairs = list(zip(better, worse, strict=True))
    kinds = Counter(
        _decided_by(one.standing.achievement, two.standing.achievement, measure, cost) for one, two in pairs
    )
    quantity = max((cost, measure, _VIOLATION), key=lambda name: kinds[name])
    if quantity == cost:
        return cost, [_ratio(one.cost, two.cost) for one, two in pairs if _differ(one.cost, two.cost)]
    values = [(one.value(quantity), two.value(quantity)) for one, two in pairs]
    if more and quantity == measure:
        # A failed run is infinitely far away, on the bad side.
        values = [(_downwards(one), _downwards(two)) for one, two in values]
    return quantity, [two - one for one, two in values if one is not None and two is not None and _differ(one, two)]


def _downwards(value: float | None) -> float | None:
    return -math.inf if value == math.inf else value


def _decided_by(one: Achievement, two: Achievement, measure: str, cost: str) -> str:
    if one == two == Achievement.REACHED:
        return cost
    return _VIOLATION if Achievement.INFEASIBLE in (one, two) and Achievement.FAILED not in (one, two) else measure


def _differ(one: float, two: float) -> bool:
    """Whether a difference can be named: not if both are infinite, because both runs failed or never arrived."""
    return math.isfinite(one) or math.isfinite(two)


def _ratio(better: float, worse: float) -> float:
    if better == worse:
        return 1.0
    if math.isinf(better):
        return 0.0
    return worse / better if better else math.inf


def _detectable(effects: Sequence[float], is_ratio: bool) -> float | None:
    """The least effect that would be found; of ratios on the scale of their logarithms."""
    if not is_ratio:
        return detectable_difference(effects)
    if not all(0 < effect < math.inf for effect in effects):
        return None
    found = detectable_difference([math.log(effect) for effect in effects])
    return None if found is None else math.exp(found) if found < _LARGEST_EXPONENT else math.inf
