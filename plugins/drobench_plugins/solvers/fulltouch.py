"""FullTouch: stochastic descent on the exact penalty, which looks at every constraint in every step. Reconstructed.

    i <- argmax_k c_k(x)
    x <- prox_{eta_t r}(x - eta_t [grad f_S(x) + alpha 1{c_i(x) > 0} grad c_i(x)])

with decreasing steps, the mean of the later iterates weighted by t, and one projection at the end, which is that of the
run's reformulation. `alpha` is above the sum of the multipliers, or above `G / rho` (see `penalised_steps`). The steps
are those of `one_projection_sgd` without its smoothing.

State: the point, the number of steps, two running means. Cost of a step: S oracle calls and a check of all M
constraints.

Reference: Cotter, Gupta, Pfeifer, "A light touch for heavily constrained SGD" (COLT 2016), where it is the method that
the others improve on. Reconstructed from its published structure; `2 / (mu (t + 1))` is `step_size = 1 / mu` and
`delay = 2`.
"""

from dataclasses import dataclass, fields

from drobench.registry import SolverEntry
from drobench.solver import Capability, Constrained, require_positive
from drobench_plugins.solvers.one_projection_sgd import OneProjectionSgd, OneProjectionSgdConfig, calls_per_step
from drobench_plugins.solvers.pieces.penalised_steps import PenalisedConfig


@dataclass
class FullTouchConfig(PenalisedConfig):
    """Hyperparameters of FullTouch."""

    penalty: float | None = None
    """alpha; null: one that the problem knows to be exact, or 2."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "penalty")


class FullTouch(OneProjectionSgd):
    """See the module's text."""

    def __init__(self, config: FullTouchConfig) -> None:
        # The configuration of a run has its name beside the settings.
        settings = {field.name: getattr(config, field.name) for field in fields(FullTouchConfig)}
        super().__init__(OneProjectionSgdConfig(**settings, gamma=0.0))


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="fulltouch",
        summary="Stochastic descent on the exact penalty of the worst of all constraints.",
        reference="Cotter, Gupta, Pfeifer (COLT 2016), FullTouch",
        config=FullTouchConfig,
        factory=FullTouch,
        accepts=(Constrained,),
        requires=(
            Capability.CONSTRAINTS,
            Capability.ONLY_NUMBERED_CONSTRAINTS,
        ),
        reconstructed=True,
        goal_gap=1e-2,
        goal_passes=400.0,
        calls_per_step=calls_per_step,
    )
