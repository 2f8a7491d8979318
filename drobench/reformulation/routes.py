"""Finding the way from a problem's native form to a form the solver accepts."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.forms import Constrained
from drobench.reformulation.constraints import ConstraintsToComposite, ProjectedConstraints, projects_at_the_end
from drobench.reformulation.divergence import (
    Chi2BallToComposite,
    Chi2PenaltyToComposite,
    Chi2VarianceToComposite,
    CVaRToComposite,
    KLBallToComposite,
    KLToComposite,
)
from drobench.reformulation.finite_sum import DropRobustness, FiniteSumToComposite
from drobench.reformulation.groups import GroupPenaltyToComposite, GroupsToSaddle, WorstGroupToComposite
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig
from drobench.reformulation.saddle import ToSaddle
from drobench.reformulation.wasserstein import WassersteinToComposite
from drobench.reformulation.wasserstein_constraints import WassersteinToConstrained

# Equivalent rewritings come first: a relaxation is taken only when nothing else leads to the solver.
REFORMULATIONS: tuple[type[Reformulation], ...] = (
    KLToComposite,
    KLBallToComposite,
    Chi2VarianceToComposite,
    Chi2PenaltyToComposite,
    Chi2BallToComposite,
    CVaRToComposite,
    WassersteinToComposite,
    WassersteinToConstrained,
    ConstraintsToComposite,
    GroupPenaltyToComposite,
    WorstGroupToComposite,
    ToSaddle,
    GroupsToSaddle,
    FiniteSumToComposite,
    DropRobustness,
)


class NoRouteError(DrobenchError):
    """No reformulation leads from the problem to a form the solver accepts."""


@dataclass(frozen=True, eq=False)
class Route:
    """The form a solver works on, and how its points and the problem's translate into each other."""

    stages: tuple[Any, ...]
    """The forms to solve one after the other, each from the solution of the one before; most routes have one."""
    steps: tuple[Reformulation, ...] = ()

    @property
    def form(self) -> Any:
        """The last form, which is the one that counts."""
        return self.stages[-1]

    @property
    def names(self) -> list[str]:
        """Names of the steps; a relaxation says so."""
        return [step.name + (" (relaxation)" if step.relaxation else "") for step in self.steps]

    @property
    def projects(self) -> bool:
        """Whether recovering a solution projects it on the problem's feasible set."""
        return any(step.projects for step in self.steps)

    def lift(self, point: Tensor) -> Tensor:
        """Return the form's variables for the problem's parameters."""
        for step in self.steps:
            point = step.lift(point)
        return point

    def recover(self, point: Tensor) -> Tensor:
        """Return the problem's parameters from the form's variables."""
        for step in reversed(self.steps):
            point = step.recover(point)
        return point


def find_route(native: Any, accepted: tuple[type, ...], options: ReformulationConfig) -> Route:
    """Return the way from `native` to one of the `accepted` forms.

    A form that fits as it is wins; then one equivalent step; then one relaxation.
    """
    if isinstance(native, accepted):
        if isinstance(native, Constrained) and projects_at_the_end(native.constraints, options):
            projected = ProjectedConstraints()
            return Route((projected.apply(native, options),), (projected,))
        return Route((native,))
    usable = [kind() for kind in REFORMULATIONS]
    for relaxed in (False, True):
        for step in usable:
            if step.relaxation == relaxed and issubclass(step.produces, accepted) and step.accepts(native):
                return Route(_stages(step, native, options), (step,))
    reachable = sorted({step.produces.__name__ for step in usable if step.accepts(native)})
    raise NoRouteError(
        f"No way from a {_describe(native)} to a form this solver accepts "
        f"({', '.join(kind.__name__ for kind in accepted)}). From this problem one can reach: "
        f"{', '.join(reachable) or 'nothing'}. Choose a solver that accepts one of these."
    )


def _stages(step: Reformulation, native: Any, options: ReformulationConfig) -> tuple[Any, ...]:
    if not step.default_widths:
        return (step.apply(native, options),)
    if options.smoothing_error is not None:
        width = step.width_for(native, options.smoothing_error, options)
        options = replace(options, smoothing_error=None, gamma=width)
    return tuple(
        step.apply(native, replace(options, gamma=width, continuation=None))
        for width in options.widths(step.default_widths)
    )


def _describe(form: Any) -> str:
    ambiguity = getattr(form, "ambiguity", None)
    return type(form).__name__ + (f" with {type(ambiguity).__name__}" if ambiguity is not None else "")
