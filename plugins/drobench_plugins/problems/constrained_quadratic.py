"""A strongly convex quadratic under many linear constraints, with everything known: optimum, multipliers, constants.

    min  mean_i (1 / 2) (x - t_i)^T H (x - t_i)    subject to    <a_k, x> <= b_k,  k = 1..M

with a diagonal `H` between `mu` and `mu condition`. The instance is built backwards from its solution. With unit
normals `a_k`, a point `x*`, multipliers `l_k > 0` on the active constraints and none on the others,

    b_k = <a_k, x*> + slack_k,  slack_k = 0 on active k;      mean t = c = x* + H^-1 sum_k l_k a_k

is stationary, `H (x* - c) + sum_k l_k a_k = 0`, which for a convex problem proves `x*` optimal. The multipliers are the
only ones while the active normals are linearly independent, as draws of no more than `d` of them are. With
`condition=1` the objective is a distance, and the projection of its minimiser `c` is `x*`: a method that ignores the
constraints and projects once is then right by luck. Any larger condition ends this.

Two constants bound what a projection costs. All normals are within a cone around one direction `v`: `<a_k, v> >= rho`
for all `k`, so that no convex combination of them is shorter than `rho`, and a point with largest violation `s` is at
most `s / rho` away from the feasible set: `x - (s / rho) v` is in it. The best `v` points to the shortest vector of the
convex hull of the normals, whose length is `rho`. And on the ball around `x*` whose radius is the distance of the
start, the gradient `H (x - c)` is no longer than

    G = |H (x* - c)| + mu condition |x_0 - x*|

That ball holds start and solution, all points between, and with every point its projection, since `x*` is its own and
projections do not move apart. An iterate on its way may leave it.

Of the dataset only shape, spread and seed are used. Its columns are the dimension (and one more for an intercept), its
training rows `z_i`, scaled to a mean squared norm of one around their mean, make the noise:
`t_i = c + noise H^-1 (z_i - mean z)`, so that `noise` is that of the gradient of a single row. Its seed draws the
instance. Labels play no part, and there is nothing to predict.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.data.dataset import Dataset
from drobench.errors import SettingError, require_non_negative, require_positive
from drobench.objective.forms import Constrained, Constraints, FiniteSum
from drobench.objective.losses import Losses, Pullback
from drobench.objective.predictor import LinearPredictor, Model, build_predictor
from drobench.objective.regularizers import Zero
from drobench.objective.sampling import Index
from drobench.problem.metrics import Metric, SplitScore
from drobench.problem.problem import Problem
from drobench.reformulation.projection import project_euclidean
from drobench.registry import ProblemEntry


@dataclass
class ConstrainedQuadraticConfig:
    """Settings of the constrained quadratic."""

    constraints: int = 200
    """M."""
    active: int = 5
    """How many of them hold with equality at the optimum."""
    curvature: float = 1.0
    """mu, the least curvature of the objective."""
    condition: float = 1.0
    """Ratio of its largest curvature to the least; with 1 projecting the unconstrained minimiser gives the optimum."""
    noise: float = 0.5
    """Root mean square of the difference between the gradient of one row and that of all."""
    multiplier: float = 0.2
    """Mean multiplier of an active constraint."""
    width: float = 1.0
    """How far the normals spread around their common direction; the smaller, the larger rho."""
    tolerance: float = 1e-6
    """Largest violation that still counts as feasible."""

    def __post_init__(self) -> None:
        require_positive(self, "constraints", "curvature", "condition", "multiplier", "width")
        require_non_negative(self, "active", "noise", "tolerance")
        if not self.condition >= 1.0:
            raise SettingError(
                f"ConstrainedQuadraticConfig.condition must be at least 1; found {self.condition}. "
                "Change `problem.condition=`."
            )
        if self.active > self.constraints:
            raise SettingError(
                f"ConstrainedQuadraticConfig.active must be at most the number of constraints, {self.constraints}; "
                f"found {self.active}. Change `problem.active=`."
            )


class SquaredDistances(Losses):
    """`f_i(x) = (1 / 2) (x - t_i)^T H (x - t_i)` with the diagonal `H` of the curvatures."""

    convex = True

    def __init__(self, targets: Tensor, curvatures: Tensor) -> None:
        self.targets, self.curvatures = targets, curvatures
        self.strong_convexity = float(curvatures.min())
        self.samples, self.dimension = targets.shape

    def origin(self) -> Tensor:
        return self.targets.new_zeros(self.dimension)

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        offsets = points[:, None, :] - self.targets[index]
        values = 0.5 * (offsets.square() @ self.curvatures)
        return values, lambda cotangents: (cotangents @ offsets) * self.curvatures


class HalfSpaces(Constraints):
    """`<a_k, x> <= b_k`: surrogates and rates are the same numbers."""

    convex = True
    exact = True
    projectable = True

    def __init__(self, normals: Tensor, bounds: Tensor) -> None:
        self.normals, self.bounds = normals, bounds
        self.count, self.dimension = normals.shape
        self.features = torch.cat([normals, bounds[:, None]], dim=1)

    def surrogates(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        normals = self.normals[index]
        return points @ normals.T - self.bounds[index], lambda cotangents: cotangents @ normals

    def violations(self, points: Tensor, index: Index) -> Tensor:
        return self.surrogates(points, index)[0]

    def project(self, point: Tensor) -> Tensor:
        return project_euclidean(self, point)


class ConstrainedQuadratic(Problem):
    """See the module's text.

    Attributes:
        solution: The optimum `x*`.
        optimal_value: The objective there.
        multipliers: `l_k`, one for each constraint.
        curvature: `mu`, the strong convexity of the objective.
        smoothness: `mu condition`.
        centre: `c`, where the objective alone is smallest.
        rho: Length of the shortest vector of the convex hull of all normals, to rounding and never above it.
        radius: Distance of the start from the optimum: that of the ball on which `lipschitz` holds.
        lipschitz: `G`, the slope of the objective on the ball around the optimum that the start is on.
    """

    form: Constrained
    metrics = (Metric("distance_to_optimum"),)

    def __init__(self, config: ConstrainedQuadraticConfig, dataset: Dataset, model: Model) -> None:
        predictor = build_predictor(model, dataset.train.columns, dataset.classes)
        if not isinstance(predictor, LinearPredictor) or dataset.classes != 2:
            raise SettingError(
                f"constrained_quadratic has one parameter for each column of its data and needs model=linear and a "
                f"dataset of two classes; found model={model.name} and {dataset.classes} classes."
            )
        if dataset.train.streamed:
            raise SettingError(
                f"constrained_quadratic needs its rows in memory; {dataset.name!r} reads them from a file."
            )
        rows = dataset.train.features
        self.predictor = predictor
        self.tolerance = config.tolerance
        self.splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
        offsets = rows - rows.mean(dim=0)
        offsets = offsets / offsets.square().sum(dim=1).mean().sqrt().clamp(min=torch.finfo(rows.dtype).tiny)
        if self.predictor.intercept:
            offsets = torch.cat([offsets, torch.zeros_like(offsets[:, :1])], dim=1)
        # In double precision whatever the rows are in: one seed is one instance.
        draw = _Draws(dataset.seed)
        size = offsets.shape[1]
        axis = draw.normal(size)
        axis = axis / axis.norm()
        spread = draw.normal(config.constraints, size) / math.sqrt(size)
        normals = axis + config.width * (spread - (spread @ axis)[:, None] * axis)
        normals = normals / normals.norm(dim=1, keepdim=True)
        solution = draw.normal(size) / math.sqrt(size)
        active = torch.arange(config.constraints) < config.active
        multipliers = torch.where(active, config.multiplier * 2.0 * draw.uniform(config.constraints), 0.0)
        bounds = normals @ solution + torch.where(active, 0.0, 0.1 + draw.uniform(config.constraints))
        ends = math.log10(config.curvature), math.log10(config.curvature * config.condition)
        curvatures = torch.logspace(*ends, size, dtype=torch.float64)
        centre = solution + multipliers @ normals / curvatures
        targets = centre.to(rows) + config.noise * offsets / curvatures.to(rows)
        self.rho = _shortest_in_hull(normals)
        self.curvature, self.smoothness = config.curvature, config.curvature * config.condition
        self.solution, self.multipliers, self.centre = (part.to(rows) for part in (solution, multipliers, centre))
        self.radius = float(solution.norm())
        self.lipschitz = float((multipliers @ normals).norm()) + self.smoothness * self.radius
        constraints = HalfSpaces(normals.to(rows), bounds.to(rows))
        # From the sum of the multipliers on the penalty is exact; twice that leaves the solution a margin.
        penalty = 2.0 * float(multipliers.sum()) or 1.0
        objective = FiniteSum(SquaredDistances(targets, curvatures.to(rows)), Zero())
        self.form = Constrained(objective, constraints, penalty)
        self.optimal_value = float(self.form.value(self.solution))

    def start(self, generator: torch.Generator) -> Tensor:
        """Return the origin."""
        return torch.zeros(self.form.dimension, dtype=torch.float64)

    def score(self, point: Tensor, split: str) -> SplitScore | None:
        """Return the violations, which are the same on every split, and the distance from the optimum."""
        if self.splits[split] is None:
            return None
        violations = self.form.constraints.violations(point[None], slice(None))[0]
        violations = torch.where(violations.isnan(), torch.inf, violations)
        p95, p99 = torch.quantile(violations, violations.new_tensor([0.95, 0.99])).tolist()
        distance = float((point - self.solution.to(point)).norm())
        return SplitScore(None, float(violations.max()), p95, p99, {"distance_to_optimum": distance})


def _shortest_in_hull(normals: Tensor) -> float:
    """Return the length of the shortest vector of the convex hull of unit vectors within an open half-space.

    It is the largest `rho` with `<a_k, v> >= rho` for all `k` and some unit `v`, and `v / rho` is the shortest `z` with
    `<a_k, z> >= 1`. Measured along the `v` that was found, so that rounding there cannot make it too large.
    """
    nearest = project_euclidean(HalfSpaces(-normals, -torch.ones_like(normals[:, 0])), torch.zeros_like(normals[0]))
    return float((normals @ (nearest / nearest.norm())).min())


class _Draws:
    """Numbers from a seed, in double precision."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def uniform(self, size: int) -> Tensor:
        return torch.rand(size, generator=self.generator, dtype=torch.float64)


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    return [
        ProblemEntry(
            name="constrained_quadratic",
            summary="A strongly convex quadratic under many linear constraints, with known optimum and multipliers.",
            reference="Built from its own optimality conditions.",
            config=ConstrainedQuadraticConfig,
            factory=ConstrainedQuadratic,
            needs=frozenset({"binary_labels"}),
        )
    ]
