"""Small problems whose optimum is known: in closed form, or with a certificate computed here.

    least_squares   mean of |x - t_i|^2 / 2 plus l2 / 2 |x|^2: the optimum is mean(t) / (1 + l2)
    kl_symmetric    the KL-robust mean of the same losses, with targets in pairs c + v and c - v: the optimum is c,
                    since the objective is convex and even about c
    kl_logistic     KL-robust logistic regression with l2 = mu: the optimum x by Newton's method, and a proof that no
                    point has a value below value(x) - |gradient(x)|^2 / (2 mu)
    worst_group     the largest of three groups' mean losses |x - t_i|^2 / 2: each group counts by its centre and its
                    spread, and the optimum is on the line between the centres of two of them, where both count alike
    half_spaces     the projection of a point on a box, given by inequalities: coordinates above their bound are cut
    box             least squares with l2 in a box that knows how to project: the optimum is that of each coordinate,
                    moved to the nearest end of its interval

A problem arrives in its native form; the way to the form that a solver accepts is found as in a run.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import CVaR, KLPenalty
from drobench.objective.forms import Constrained, Constraints, FiniteSum, NativeForm, RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Losses, Pullback
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Index

# Odd, so that two processes have parts of different size.
ROWS, FEATURES = 61, 3
_L2 = 0.1
_GAMMA = 0.5
_GROUP_SIZES = (13, 21, 27)
_LARGEST_CERTIFIED_GAP = 1e-10
_NEWTON_STEPS = 50


@dataclass(frozen=True, eq=False)
class KnownProblem:
    """A problem with its answer.

    Attributes:
        name: What it is called in messages.
        form: The problem in its native form.
        start: Where a solver begins, in the problem's own parameters.
        optimum: The optimal value.
        certificate: Why this is the optimum.
        data: The tensors that the form was built from, which nobody may change.
        penalty: For constrained problems, a weight of the largest violation that makes the penalty exact.
    """

    name: str
    form: NativeForm
    start: Tensor
    optimum: float
    certificate: str
    data: tuple[Tensor, ...]
    penalty: float = 0.0

    def value(self, point: Tensor) -> float:
        """Return the objective, plus the largest violation at a price that makes infeasible points no better."""
        value = float(self.form.value(point))
        if isinstance(self.form, Constrained):
            violations = self.form.constraints.violations(point[None], slice(None))
            value += self.penalty * max(0.0, float(violations.max()))
        return value

    def gap(self, point: Tensor) -> float:
        """Return (value - optimum) / (value at the start - optimum)."""
        return (self.value(point) - self.optimum) / (self.value(self.start) - self.optimum)


class SquaredDistances(Losses):
    """`f_i(x) = |x - t_i|^2 / 2`."""

    convex = True

    def __init__(self, targets: Tensor) -> None:
        self.targets = targets
        self.samples, self.dimension = targets.shape

    def origin(self) -> Tensor:
        return self.targets.new_zeros(self.dimension)

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        offsets = points[:, None, :] - self.targets[index]
        return 0.5 * offsets.square().sum(dim=-1), lambda cotangents: cotangents @ offsets


class HalfSpaces(Constraints):
    """`<a_k, x> <= b_k`, linear, so that surrogates and rates are the same numbers."""

    convex = True

    def __init__(self, normals: Tensor, bounds: Tensor) -> None:
        self.normals, self.bounds = normals, bounds
        self.count, self.dimension = normals.shape
        # One column for each constraint: a multiplier model that is linear in them can give any multipliers.
        self.features = torch.eye(self.count, dtype=normals.dtype, device=normals.device)

    def surrogates(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        normals = self.normals[index]
        return points @ normals.T - self.bounds[index], lambda cotangents: cotangents @ normals

    def violations(self, points: Tensor, index: Index) -> Tensor:
        return self.surrogates(points, index)[0]


class Box(HalfSpaces):
    """`lower <= x <= upper`, two half-spaces a coordinate, and the projection on them."""

    projectable = True

    def __init__(self, lower: Tensor, upper: Tensor) -> None:
        axes = torch.eye(len(lower), dtype=lower.dtype, device=lower.device)
        super().__init__(torch.cat([axes, -axes]), torch.cat([upper, -lower]))
        self.lower, self.upper = lower, upper

    def project(self, point: Tensor) -> Tensor:
        return point.clamp(self.lower, self.upper)


def known_problems(dtype: torch.dtype = torch.float64, *, spoiled: bool = False) -> list[KnownProblem]:
    """Return all of them; `spoiled` puts "not a number" into one value of one row, which leaves no optimum."""
    return [build(dtype, spoiled) for build in _BUILDERS]


def _least_squares(dtype: torch.dtype, spoiled: bool) -> KnownProblem:
    targets = _spoil(1.0 + _normal(ROWS, FEATURES, seed=1), spoiled).to(dtype)
    centre = targets.double().mean(dim=0)
    spread = float((targets.double() - centre).square().sum(dim=1).mean())
    optimum = 0.5 * spread + 0.5 * _L2 / (1.0 + _L2) * float(centre.square().sum())
    form = FiniteSum(SquaredDistances(targets), ElasticNet(l2=_L2))
    start = torch.full((FEATURES,), -2.0, dtype=dtype)
    return KnownProblem("least_squares", form, start, optimum, "closed form", (targets,))


def _kl_symmetric(dtype: torch.dtype, spoiled: bool) -> KnownProblem:
    centre = torch.tensor([1.0, -0.5, 0.25], dtype=torch.float64)
    offsets = 0.4 * _normal(ROWS // 2, FEATURES, seed=2)
    # The middle row is its own mirror image.
    targets = _spoil(torch.cat([centre + offsets, centre[None], centre - offsets]), spoiled).to(dtype)
    losses = 0.5 * (targets.double() - centre).square().sum(dim=1)
    optimum = _GAMMA * (float(torch.logsumexp(losses / _GAMMA, dim=0)) - math.log(ROWS))
    form = RobustRisk(SquaredDistances(targets), KLPenalty(_GAMMA), Zero())
    return KnownProblem("kl_symmetric", form, torch.zeros(FEATURES, dtype=dtype), optimum, "symmetry", (targets,))


def _kl_logistic(dtype: torch.dtype, spoiled: bool) -> KnownProblem:
    rows, signs = _classification()

    def form_of(features: Tensor) -> RobustRisk:
        losses = LinearMarginLosses(features, signs.to(features), LogisticLoss())
        return RobustRisk(losses, KLPenalty(_GAMMA), ElasticNet(l2=_L2))

    optimum, certificate = _certified_minimum()
    features = _spoil(rows.clone(), spoiled).to(dtype)
    form = form_of(features)
    start = torch.zeros(FEATURES, dtype=dtype)
    return KnownProblem("kl_logistic", form, start, optimum, certificate, (features, _signed_rows(form)))


def _worst_group(dtype: torch.dtype, spoiled: bool) -> KnownProblem:
    groups = torch.repeat_interleave(torch.arange(len(_GROUP_SIZES)), torch.tensor(_GROUP_SIZES))
    centres = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.5, 0.0], [0.0, 0.3, 0.1]], dtype=torch.float64)
    deviations = torch.tensor([0.6, 0.4, 0.2], dtype=torch.float64)
    offsets = [_normal(size, FEATURES, seed=6 + group) for group, size in enumerate(_GROUP_SIZES)]
    spread_out = torch.cat([offset - offset.mean(dim=0) for offset in offsets]) * deviations[groups, None]
    spreads = torch.stack([0.5 * spread_out[groups == group].square().sum(dim=1).mean() for group in range(3)])
    # With the distance D of two centres, theta^2 D^2 / 2 + s_1 = (1 - theta)^2 D^2 / 2 + s_2.
    line = centres[1] - centres[0]
    share = 0.5 + float((spreads[1] - spreads[0]) / line.square().sum())
    solution = centres[0] + share * line
    means = 0.5 * (solution - centres).square().sum(dim=1) + spreads
    assert 0.0 < share < 1.0, "the solution of a problem of ours must lie between two groups"
    assert bool(means[2] < means[0]), "the third group of a problem of ours must not matter"
    targets = _spoil((centres[groups] + spread_out), spoiled).to(dtype)
    ambiguity = GroupAdversary(groups, CVaR(1.0 / len(_GROUP_SIZES)))
    form = RobustRisk(SquaredDistances(targets), ambiguity, Zero())
    start = torch.full((FEATURES,), -2.0, dtype=dtype)
    return KnownProblem("worst_group", form, start, float(means[0]), "closed form", (targets, groups))


def _half_spaces(dtype: torch.dtype, spoiled: bool) -> KnownProblem:
    target = torch.tensor([1.5, 0.4, -0.7], dtype=torch.float64)
    offsets = 0.3 * _normal(ROWS, FEATURES, seed=4)
    targets = target + offsets - offsets.mean(dim=0)
    axes = torch.eye(FEATURES, dtype=torch.float64)
    # Two bounds cut, the third and the sum do not matter.
    bounds = torch.tensor([1.0, 0.2, 0.0, 2.0], dtype=torch.float64)
    normals = torch.cat([axes, torch.ones(1, FEATURES, dtype=torch.float64)])
    solution = torch.minimum(target, bounds[:FEATURES])
    optimum = 0.5 * float((targets - solution).square().sum(dim=1).mean())
    multipliers = target - solution
    spoilt, normals, bounds = (part.to(dtype) for part in (_spoil(targets, spoiled), normals, bounds))
    form = Constrained(FiniteSum(SquaredDistances(spoilt), Zero()), HalfSpaces(normals, bounds))
    # A weight of the largest violation is exact from the sum of the multipliers on.
    penalty = 2.0 * float(multipliers.sum())
    data = (spoilt, normals, bounds)
    start = torch.full((FEATURES,), -2.0, dtype=dtype)
    return KnownProblem("half_spaces", form, start, optimum, "closed form", data, penalty)


def _box(dtype: torch.dtype, spoiled: bool) -> KnownProblem:
    target = torch.tensor([1.5, 0.4, -0.7], dtype=torch.float64)
    offsets = 0.3 * _normal(ROWS, FEATURES, seed=9)
    targets = target + offsets - offsets.mean(dim=0)
    lower = torch.tensor([-0.5, -1.0, -2.0], dtype=torch.float64)
    upper = torch.tensor([1.0, 0.2, 1.0], dtype=torch.float64)
    # Two coordinates are moved; one is free, or the projection of any point beyond the corner would be the solution.
    solution = (target / (1.0 + _L2)).clamp(lower, upper)
    spread = 0.5 * float((targets - solution).square().sum(dim=1).mean())
    optimum = spread + 0.5 * _L2 * float(solution.square().sum())
    multipliers = (target - (1.0 + _L2) * solution).abs()
    spoilt, lower, upper = (part.to(dtype) for part in (_spoil(targets, spoiled), lower, upper))
    form = Constrained(FiniteSum(SquaredDistances(spoilt), ElasticNet(l2=_L2)), Box(lower, upper))
    penalty = 2.0 * float(multipliers.sum())
    # A corner, so that no part of the way from the start is the projection's.
    start = torch.stack([lower[0], lower[1], upper[2]])
    return KnownProblem("box", form, start, optimum, "closed form", (spoilt, lower, upper), penalty)


_BUILDERS: tuple[Callable[[torch.dtype, bool], KnownProblem], ...] = (
    _least_squares,
    _kl_symmetric,
    _kl_logistic,
    _worst_group,
    _half_spaces,
    _box,
)


def _classification() -> tuple[Tensor, Tensor]:
    rows = _normal(ROWS, FEATURES, seed=3)
    noise = _normal(ROWS, 1, seed=5)[:, 0]
    return rows, torch.sign(rows @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64) + noise)


@functools.cache
def _certified_minimum() -> tuple[float, str]:
    """Return the optimal value of the logistic problem and its certificate, by arithmetic of its own.

    Written out rather than taken from the forms, so that an error there does not hide here.
    """
    rows, signs = _classification()
    signed = rows * signs[:, None]

    def value(point: Tensor) -> Tensor:
        losses = torch.log1p(torch.exp(-(signed @ point)))
        return _GAMMA * (torch.logsumexp(losses / _GAMMA, dim=0) - math.log(ROWS)) + 0.5 * _L2 * point.dot(point)

    point = torch.zeros(FEATURES, dtype=torch.float64)
    for _ in range(_NEWTON_STEPS):
        slope, curvature = _derivatives(signed, point)
        point = point - torch.linalg.solve(curvature, slope)
    best = float(value(point))
    # The objective less its quadratic part is convex, which bounds it from below everywhere.
    below = best - float(_derivatives(signed, point)[0].square().sum()) / (2.0 * _L2)
    assert best - below <= _LARGEST_CERTIFIED_GAP, "the certificate of a problem of ours must hold"
    return best, f"no value is below {below:.12g}, by strong convexity"


def _derivatives(signed: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradient and Hessian of the logistic problem."""
    margins = signed @ point
    losses, shares = torch.log1p(torch.exp(-margins)), torch.sigmoid(-margins)
    weights = torch.softmax(losses / _GAMMA, dim=0)
    slopes = -shares[:, None] * signed
    mean = weights @ slopes
    curvature = (signed * (weights * shares * (1.0 - shares))[:, None]).T @ signed
    spread = (slopes * weights[:, None]).T @ slopes - torch.outer(mean, mean)
    return mean + _L2 * point, curvature + spread / _GAMMA + _L2 * torch.eye(FEATURES, dtype=torch.float64)


def _signed_rows(form: RobustRisk) -> Tensor:
    assert isinstance(form.losses, LinearMarginLosses)
    return form.losses.signed_rows


def _spoil(rows: Tensor, spoiled: bool) -> Tensor:
    if spoiled:
        rows[ROWS // 3, 0] = torch.nan
    return rows


def _normal(rows: int, columns: int, seed: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
