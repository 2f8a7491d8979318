"""Finding the way from a problem's native form to a form the solver accepts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.forms import Constrained, RobustRisk
from drobench.reformulation.chains import Chain, MakeStep, Search, stages_of
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
from drobench.reformulation.names import RELAXATION
from drobench.reformulation.prices import (
    PowerBallToComposite,
    PriceToComposite,
    SmoothedPriceToComposite,
    SpectralToComposite,
)
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig
from drobench.reformulation.saddle import ToSaddle
from drobench.reformulation.wasserstein import WassersteinToComposite
from drobench.reformulation.wasserstein_constraints import WassersteinToConstrained
from drobench.reformulation.wasserstein_regression import WassersteinRegressionToComposite

# Equivalent rewritings come first: a relaxation is taken only when nothing else leads to the solver.
REFORMULATIONS: tuple[type[Reformulation], ...] = (
    KLToComposite,
    KLBallToComposite,
    Chi2VarianceToComposite,
    Chi2PenaltyToComposite,
    Chi2BallToComposite,
    CVaRToComposite,
    PriceToComposite,
    SmoothedPriceToComposite,
    PowerBallToComposite,
    SpectralToComposite,
    WassersteinToComposite,
    WassersteinToConstrained,
    WassersteinRegressionToComposite,
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
        return [step.name + (RELAXATION if step.relaxation else "") for step in self.steps]

    @property
    def projects(self) -> bool:
        """Whether recovering a solution projects it on the problem's feasible set."""
        return any(step.projects for step in self.steps)

    def lift(self, point: Tensor) -> Tensor:
        """Return the form's variables for the problem's parameters."""
        return Chain(self.steps).lift(point) if self.steps else point

    def recover(self, point: Tensor) -> Tensor:
        """Return the problem's parameters from the form's variables."""
        return Chain(self.steps).recover(point) if self.steps else point


def find_route(
    native: Any, accepted: tuple[type, ...], options: ReformulationConfig, further: Sequence[MakeStep] = ()
) -> Route:
    """Return the way from `native` to one of the `accepted` forms.

    A form that fits as it is wins; then the shortest chain of equivalent steps; then one that gives something up.

    Args:
        native: The problem's form.
        accepted: The forms of the solver.
        options: What a run says about reformulations.
        further: Steps beside those of drobench itself, such as `reformulations_of` a catalogue.
    """
    makers: tuple[MakeStep, ...] = ()
    if not isinstance(native, accepted):
        search = Search(native, accepted, (*REFORMULATIONS, *further), options)
        found = search.chain()
        if found is None:
            raise NoRouteError(_explained(native, accepted, search))
        makers = found
    steps = tuple(make() for make in makers)
    stages = tuple(stages_of(steps, native, options))
    if isinstance(stages[-1], Constrained) and not any(step.projects for step in steps):
        projected = ProjectedConstraints()
        if projects_at_the_end(stages[-1].constraints, options):
            return Route(tuple(projected.apply(stage, options) for stage in stages), (*steps, projected))
    return Route(stages, steps)


def _explained(native: Any, accepted: tuple[type, ...], search: Search) -> str:
    """Say what there is instead, and what whoever wrote the form can do about it."""
    lines = [
        f"No way from a {_describe(native)} to a form this solver accepts "
        f"({', '.join(kind.__name__ for kind in accepted)}). From this problem one can reach: "
        f"{', '.join(sorted(search.reached)) or 'nothing'}. Choose a solver that accepts one of these."
    ]
    lines += [f"The step {name!r} could not be taken: {reason}" for name, reason in sorted(search.refusals.items())]
    if search.circles:
        lines.append(f"Left out, since they lead back to where they began: {', '.join(sorted(search.circles))}.")
    if isinstance(native, RobustRisk):
        lines.append(
            f"If {type(native.ambiguity).__name__} is yours: derive it from `DivergencePrice`, which makes a composite "
            "and a saddle of its conjugate, or bring a step of your own by the hook `drobench_reformulations`."
        )
    else:
        lines.append(
            f"If {type(native).__name__} is yours: bring a step from it to one of these forms by the hook "
            "`drobench_reformulations`."
        )
    return " ".join(lines)


def _describe(form: Any) -> str:
    ambiguity = getattr(form, "ambiguity", None)
    return type(form).__name__ + (f" with {type(ambiguity).__name__}" if ambiguity is not None else "")
