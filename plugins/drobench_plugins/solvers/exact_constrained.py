"""Reference solver for convex problems with many convex constraints: augmented Lagrangian, to machine accuracy.

    x <- argmin f(x) + r(x) + (1 / (2 w)) sum_k ([l_k + w (c_k(x) + margin)]_+^2 - l_k^2)
    l <- [l + w (c(x) + margin)]_+

The inner minimum is smooth and found by L-BFGS; its gradient is that of the Lagrangian at the new multipliers, so that
a small one proves the point and the multipliers right together. The constraints are tightened by `margin` and met to
less than that: the point returned is feasible, not nearly so, and its objective too high by about
`margin * sum of multipliers`. The weight `w` grows whenever a round has not brought the constraints down by half.

All of the problem is asked for at once, through surrogates and their pullback: any convex constraints will do that have
an interior of depth `margin`, and any smooth convex objective whose regularizer has a gradient (one with an l1 part has
kinks, where L-BFGS may end too early). One step of this solver is a whole solve. The state carries the multipliers;
whoever uses the value recomputes a bound from both.

References: Hestenes (1969), Powell (1969), Rockafellar (1973) for the method of multipliers; Byrd, Lu, Nocedal, Zhu
(1995) for L-BFGS-B.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Capability,
    Communicator,
    Constrained,
    ConstrainedOracle,
    DrobenchError,
    Solver,
    require_positive,
)
from drobench_plugins.solvers.pieces.lbfgs import minimise

# By how much the weight grows after a round that did too little, and how far: beyond, rounding decides.
_GROWTH = 4.0
_LARGEST_WEIGHT = 1e6


@dataclass
class ExactConstrainedConfig:
    """Accuracy of the reference."""

    margin: float = 1e-8
    """By how much the constraints are tightened, in their own units; they are met to half of it. In single precision a
    hundred times its rounding, if that is more."""
    tolerance: float = 1e-11
    """Largest gradient component of the Lagrangian at which L-BFGS may stop."""
    weight: float = 10.0
    """First weight of the squares."""
    rounds: int = 200
    iterations: int = 20000
    """Most L-BFGS iterations in a round."""

    def __post_init__(self) -> None:
        require_positive(self, "margin", "tolerance", "weight", "rounds", "iterations")


@dataclass(frozen=True)
class ExactConstrainedState:
    """The solution, once there is one, and the multipliers, those of the cheap constraints last."""

    point: Tensor
    dual: Tensor | None
    solved: bool


class ExactConstrained(Solver[ExactConstrainedState]):
    """See the module's text."""

    def __init__(self, config: ExactConstrainedConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: ConstrainedOracle, communicator: Communicator) -> ExactConstrainedState:
        return ExactConstrainedState(start, None, solved=False)

    def step(
        self, state: ExactConstrainedState, oracle: ConstrainedOracle, communicator: Communicator
    ) -> ExactConstrainedState:
        if state.solved:
            return state
        form = oracle.materialise()
        point, dual = _solve(form, state.point, self.config)
        return ExactConstrainedState(point, dual, solved=True)

    def solution(self, state: ExactConstrainedState) -> Tensor:
        return state.point

    def ended(self, state: ExactConstrainedState) -> bool:
        return state.solved


def _solve(form: Constrained, start: Tensor, config: ExactConstrainedConfig) -> tuple[Tensor, Tensor]:
    """Return the solution and its multipliers."""
    point, weight, residual = start, config.weight, float("inf")
    margin = max(config.margin, 100.0 * torch.finfo(start.dtype).eps)
    dual = start.new_zeros(form.constraints.count + form.constraints.cheap_count)
    for _ in range(config.rounds):
        point = _minimise(form, point, dual, weight, margin, config)
        values = _tightened(form, point, margin)[0]
        # How far constraints and multipliers are from having a zero in every pair.
        before, residual = residual, float(torch.maximum(values, -dual / weight).abs().max()) if dual.numel() else 0.0
        dual = (dual + weight * values).clamp(min=0.0)
        if residual <= 0.5 * margin:
            return point, dual
        if residual > 0.5 * before:
            if weight >= _LARGEST_WEIGHT:
                break
            weight *= _GROWTH
    raise DrobenchError(
        f"exact_constrained met the constraints only to {residual:.3g}, not to {0.5 * margin:.3g}; they may leave no "
        f"room of depth {margin:g}. Change `margin` or `rounds`."
    )


def _minimise(
    form: Constrained, start: Tensor, dual: Tensor, weight: float, margin: float, config: ExactConstrainedConfig
) -> Tensor:
    """Minimise the augmented Lagrangian at fixed multipliers by L-BFGS-B."""
    objective = form.objective

    def both(point: Tensor) -> tuple[Tensor, Tensor]:
        values, pull = _tightened(form, point, margin)
        raised = (dual + weight * values).clamp(min=0.0)
        value = objective.value(point) + (raised.square() - dual.square()).sum() / (2.0 * weight)
        gradient = objective.smooth_gradient(point) + objective.regularizer.gradient(point) + pull(raised)
        return value, gradient

    return minimise(both, start, config.tolerance, config.iterations)


def _tightened(form: Constrained, point: Tensor, margin: float) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return `c(x) + margin` of all constraints, and what maps multipliers to the sum of their gradients."""
    constraints = form.constraints
    parts = [constraints.surrogates(point[None], slice(None))]
    parts += [constraints.cheap(point[None])] if constraints.cheap_count else []
    sizes = [found.shape[1] for found, _ in parts]

    def pull(multipliers: Tensor) -> Tensor:
        shares = zip(parts, multipliers.split(sizes), strict=True)
        return torch.stack([pullback(share[None, None])[0, 0] for (_, pullback), share in shares]).sum(dim=0)

    return torch.cat([found[0] for found, _ in parts]) + margin, pull


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="exact_constrained",
        summary="Reference: the method of multipliers on a whole convex problem with constraints.",
        reference="Hestenes (1969); Powell (1969); Rockafellar (1973); Byrd, Lu, Nocedal, Zhu (1995)",
        config=ExactConstrainedConfig,
        factory=ExactConstrained,
        accepts=(Constrained,),
        requires=(Capability.CONVEXITY,),
        exact=True,
        goal_gap=1e-6,
        one_process="it hands the whole problem to a library, and every process would compute the same",
    )
