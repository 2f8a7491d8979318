"""The forms in which a problem arrives, and into which it is rewritten for a solver.

Native forms: `RobustRisk`, `Constrained`, `FiniteSum`. Forms that solvers accept: `Composite`, `Constrained`,
`MinMax`, `FiniteSum`. The step from one to the other is a reformulation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.moved import moved, warn_of_old_name
from drobench.objective.ambiguity_sets import AmbiguitySet
from drobench.objective.capabilities import Capability, overrides, those_of
from drobench.objective.composite import Composite
from drobench.objective.losses import Losses, Pullback, PullbackDifference, difference_of
from drobench.objective.regularizers import Regularizer
from drobench.objective.sampling import Index, Rows

__all__ = [
    "Composite",
    "Constrained",
    "Constraints",
    "FiniteSum",
    "GroupedMinMax",
    "MinMax",
    "NativeForm",
    "RobustRisk",
    "stationarity",
]

# The gradient mapping depends on its step; one fixed step makes the numbers of all solvers comparable.
STATIONARITY_STEP = 1.0


class NativeForm(ABC):
    """A native form: what every result is scored on, whatever form the solver worked on."""

    regularizer: Regularizer
    dimension: int

    @property
    @abstractmethod
    def samples(self) -> int:
        """Number of training samples."""

    @abstractmethod
    def value(self, point: Tensor) -> Tensor:
        """Return the exact objective."""

    @abstractmethod
    def smooth_gradient(self, point: Tensor) -> Tensor:
        """Return the exact gradient of the objective without its regularizer."""

    @property
    @abstractmethod
    def convex(self) -> bool:
        """Whether the objective is convex."""

    def lower_bound(self, point: Tensor, dual: Tensor | None = None) -> float | None:
        """Return a number that the optimum is not below, computed from nothing but these; `None`: none is known.

        A form of one's own needs this for its optimum to be certified; those of drobench are in `certificates`.

        Args:
            point: Any point, at best the minimiser.
            dual: What the reference solver found beside it: `dual` of its state.
        """
        return None

    @property
    def provides(self) -> frozenset[Capability]:
        """What a solver may require of this form."""
        return those_of(convexity=self.convex)


def stationarity(form: NativeForm, point: Tensor) -> Tensor:
    """Return the squared norm of the gradient mapping `(x - prox(x - eta grad Phi(x))) / eta` with `eta = 1`."""
    step = STATIONARITY_STEP
    moved = form.regularizer.prox(point - step * form.smooth_gradient(point), step)
    return ((point - moved) / step).square().sum()


@dataclass(frozen=True, eq=False)
class FiniteSum(NativeForm):
    """`r(x) + mean f_i(x)`: empirical risk."""

    losses: Losses
    regularizer: Regularizer

    @property
    def dimension(self) -> int:  # type: ignore[override]  # read-only here
        return self.losses.dimension

    @property
    def samples(self) -> int:
        return self.losses.samples

    @property
    def convex(self) -> bool:
        return self.losses.convex

    def value(self, point: Tensor) -> Tensor:
        return self.regularizer.value(point) + self.losses.values(point).sum() / max(self.losses.samples, 1)

    def smooth_gradient(self, point: Tensor) -> Tensor:
        return self.losses.mean(point[None], slice(None))[1][0]


@dataclass(frozen=True, eq=False)
class RobustRisk(NativeForm):
    """`r(x) + sup over Q in the ambiguity set of sum_i q_i f_i(x)`, minus the penalty of `Q` where there is one."""

    losses: Losses
    ambiguity: AmbiguitySet
    regularizer: Regularizer

    @property
    def dimension(self) -> int:  # type: ignore[override]  # read-only here
        return self.losses.dimension

    @property
    def samples(self) -> int:
        return self.losses.samples

    @property
    def convex(self) -> bool:
        return self.losses.convex and self.ambiguity.keeps_convexity

    def value(self, point: Tensor) -> Tensor:
        return self.regularizer.value(point) + self.ambiguity.worst_case(self.losses.values(point))

    def smooth_gradient(self, point: Tensor) -> Tensor:
        """Return `sum q_i grad f_i` at the worst-case weights `q` (Danskin)."""
        values, pullback = self.losses.linearize(point[None], slice(None))
        return pullback(self.ambiguity.weights(values[0])[None, None])[0, 0]


class Constraints(ABC):
    """Many constraints `c_k(x) <= 0`, each with a differentiable surrogate and an exact violation."""

    count: int
    dimension: int
    features: Tensor
    """`(count, q)`: what a multiplier model sees of each constraint."""
    convex: bool = False
    """Whether every surrogate is a convex function."""
    exact: bool = False
    """Whether the surrogates are the violations themselves, so that bounds on the problem with either hold for both."""

    @abstractmethod
    def surrogates(self, points: Tensor, index: Index) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return surrogate values `(k, rows)` and the pullback of cotangents `(k, q, rows)` to `(k, q, d)`."""

    def surrogates_difference(self, points: Tensor, index: Index) -> tuple[Tensor, PullbackDifference]:
        """Return surrogate values at two points, `(2, rows)`, and the pullback at the first less that at the second."""
        values, pullback = self.surrogates(points, index)
        return values, difference_of(pullback)

    rows: int = 0
    """Rows that every surrogate is a sum over, where `partial_surrogates` can be asked for some of them; else 0."""
    constant: float = 0.0
    """What the sum over all rows lacks to be the surrogate."""

    def partial_surrogates(self, points: Tensor, index: Index, part: slice) -> tuple[Tensor, Pullback]:
        """Return the part of the surrogates that some rows make up, and its pullback.

        With the parts of all rows, `surrogates = sum of partial values + constant`. Groups are divided by their whole
        size, so that sums of parts, never means of parts, are what is added up.
        """
        raise DrobenchError(f"{type(self).__name__} is no sum over rows.")

    has_hessian: bool = False
    """Whether `hessian` and `hessian_product` are there."""

    def hessian(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> Tensor:
        """Return `sum_k outer_k grad c_k grad c_k^T + curve_k Hessian c_k` of the surrogates, `(d, d)`."""
        raise DrobenchError(f"{type(self).__name__} has no second derivatives.")

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        """Return the same matrix times a vector."""
        raise DrobenchError(f"{type(self).__name__} has no second derivatives.")

    cheap_count: int = 0
    """Number of further constraints that cost next to nothing and are evaluated in every step."""

    def cheap(self, points: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return values and pullback of the cheap constraints, as `surrogates` does."""
        raise DrobenchError(f"{type(self).__name__} has no cheap constraints.")

    projectable: bool = False
    """Whether `project` is there."""

    def project(self, point: Tensor) -> Tensor:
        """Return the nearest feasible point, where that is a matter of the constraints alone and quickly found."""
        raise DrobenchError(
            f"{type(self).__name__} cannot project: its feasible set has no form that a projection could use. "
            "Choose a problem whose constraints can, or a solver that does not project."
        )

    def project_conic(self, point: Tensor) -> Tensor:
        """Return the nearest feasible point by a conic solver, where the constraints are known to it."""
        raise DrobenchError(f"{type(self).__name__} has no conic form; use reformulation.projection=euclidean.")

    @abstractmethod
    def violations(self, points: Tensor, index: Index) -> Tensor:
        """Return the exact, not differentiable, violations `(k, rows)`, negative where satisfied."""

    def rates(self, points: Tensor, index: Index) -> Tensor:
        """The old name of `violations`."""
        warn_of_old_name("Constraints.rates", "Constraints.violations")
        return self.violations(points, index)

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        # Classes that were written for the old name go on working.
        if "rates" in vars(cls) and "violations" not in vars(cls):
            warn_of_old_name(f"{cls.__name__}.rates", f"{cls.__name__}.violations")
            cls.violations = vars(cls)["rates"]  # type: ignore[method-assign]


@dataclass(frozen=True, eq=False)
class Constrained(NativeForm):
    """`min objective(x)` subject to `constraints`; its value is that of the objective, feasible or not."""

    objective: FiniteSum
    constraints: Constraints
    penalty: float | None = None
    """A weight of the largest violation that is known to be exact, if one is."""

    @property
    def dimension(self) -> int:  # type: ignore[override]  # read-only here
        return self.objective.dimension

    @property
    def regularizer(self) -> Regularizer:  # type: ignore[override]  # read-only here
        """That of the objective."""
        return self.objective.regularizer

    @property
    def samples(self) -> int:
        return self.objective.samples

    @property
    def convex(self) -> bool:
        return self.objective.convex and self.constraints.convex

    @property
    def provides(self) -> frozenset[Capability]:
        return those_of(
            convexity=self.convex,
            constraints=self.constraints.count > 0,
            only_numbered_constraints=not self.constraints.cheap_count,
            projection=self.constraints.projectable,
        )

    def value(self, point: Tensor) -> Tensor:
        return self.objective.value(point)

    def smooth_gradient(self, point: Tensor) -> Tensor:
        return self.objective.smooth_gradient(point)


class MinMax(ABC):
    """`min_x max_w L(x, w)` as a monotone operator on `u = (x, w)` and a projection."""

    dimension: int
    samples: int

    @property
    def provides(self) -> frozenset[Capability]:
        """What a solver may require of a saddle."""
        return those_of(mirror_step=overrides(self, MinMax, "mirror_step"))

    @abstractmethod
    def start(self, point: Tensor) -> Tensor:
        """Return the initial `u` for initial parameters `point`."""

    @abstractmethod
    def operator(self, joint: Tensor, rows: Rows) -> Tensor:
        """Return the estimate of `(grad_x L, -grad_w L)` from the rows."""

    @abstractmethod
    def project(self, joint: Tensor) -> Tensor:
        """Return the nearest feasible `u`."""

    def scales(self, joint: Tensor) -> Tensor:
        """Return the usual size of each variable, in which steps on it are measured.

        Equal within each block that the projection treats as a whole, so that it is the nearest point in this metric
        too.
        """
        return torch.ones_like(joint)

    def mirror_step(self, joint: Tensor, operator: Tensor, step_size: float, adversary_step: float) -> Tensor:
        """Return `u` after a step against `operator`, which was estimated at `u`, in the geometry of each player.

        `adversary_step` is a step on the adversary's variables in units of their `scales`.
        """
        raise DrobenchError(
            f"{type(self).__name__} has no step of its own geometry; use a solver that works with the operator and the "
            "projection alone."
        )


class GroupedMinMax(MinMax):
    """A saddle over parameters and the weights of groups of samples: `L(x, q) = r(x) + sum q_g L_g(x) - D(q)`.

    `L_g` is the mean loss of group `g`; the last `groups` variables are the weights.
    """

    groups: int
    group_sizes: Tensor
    """`(groups,)`, how many samples each group has."""
    row_groups: Tensor
    """`(samples,)`, the group of each sample."""

    @abstractmethod
    def group_losses(self, joint: Tensor, rows: Rows) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return estimates of the group means `(groups,)` and a function of weights `(groups,)`.

        That function returns the gradient by the parameters of `r(x) + sum w_g L_g(x)`, from the same rows; so the
        weights may be chosen after the losses are known.
        """

    @abstractmethod
    def penalty_slope(self, joint: Tensor) -> Tensor:
        """Return the derivative of `D` by the weights, `(groups,)`."""

    @abstractmethod
    def raise_weights(self, joint: Tensor, losses: Tensor, step: float) -> Tensor:
        """Return the joint variable after the adversary alone has moved, for estimates `losses` of the group means.

        Under a KL penalty, or none, `q` becomes proportional to `(q exp(step losses))^(1 / (1 + step gamma))`.
        """


__getattr__ = moved(__name__, {"Scored": "drobench.objective.forms.NativeForm"})
