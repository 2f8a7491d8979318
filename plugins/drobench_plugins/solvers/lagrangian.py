"""The standard Lagrangian: multipliers held one by one, descent on the parameters, ascent on them.

    separate  lambda_k = |mu_k|, one for each constraint, from 1 on
    common    lambda = mu >= 0 by projection, from 0 on, shared by all constraints

Each step is that of `joint_descent`, with differentiable proxies for the parameters and exact rates for the
multipliers. With `common_multipliers=s` there are `s` common multipliers, and constraint `k` has number `k mod s`: one
for each side of the two-sided constraints of a ranking problem, whatever the query.

State: the point, the multipliers, one accumulator over both, and snapshots. Cost of a step: S sample calls and 2 C
constraint checks (C without `dual_rates`); a snapshot costs all samples and all constraints once more.

References: Arrow, Hurwicz, Uzawa (1958); with proxies, Cotter, Jiang, Gupta, Wang, Narayan, You, Sridharan (JMLR
2019). The two variants are those that Narasimhan et al. (NeurIPS 2020) compare with; `common` is that of TFCO.

With a constant step the absolute value of a slack constraint's `mu_k` keeps swinging about zero by the size of the
step, and the point is off by as much; Adagrad's steps shrink, and a projected multiplier rests at zero.

Deviation: one optimizer moves both players at once, so that the comparison with `heavily_constrained` is one of
multiplier models only.
"""

from dataclasses import dataclass

from drobench.registry import SolverEntry
from drobench.solver import Capability, Constrained, require_non_negative, require_one_of, require_positive
from drobench_plugins.solvers.pieces.joint_config import JointDescentConfig, calls_per_step
from drobench_plugins.solvers.pieces.joint_descent import JointDescent
from drobench_plugins.solvers.pieces.multipliers import MultiplierTable


@dataclass
class LagrangianConfig(JointDescentConfig):
    """Hyperparameters of the multipliers, beside those of the joint step."""

    variant: str = "separate"
    """`separate`: one multiplier for each constraint. `common`: multipliers that constraints share."""
    common_multipliers: int = 1
    """How many multipliers the constraints of the common variant take in turn."""
    initial_multiplier: float | None = None
    """null: 1 for separate multipliers, 0 for common ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "variant", ("separate", "common"))
        require_positive(self, "common_multipliers")
        require_non_negative(self, "initial_multiplier")


class Lagrangian(JointDescent):
    """See the module's text."""

    def __init__(self, config: LagrangianConfig) -> None:
        common = config.variant == "common"
        initial = config.initial_multiplier
        if initial is None:
            initial = 0.0 if common else 1.0
        size = config.common_multipliers if common else None
        super().__init__(config, MultiplierTable(size, initial, projected=common))


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="lagrangian",
        summary="Descent on the parameters and ascent on one multiplier for each constraint, or a common one.",
        reference="Cotter, Jiang, Gupta, Wang, Narayan, You, Sridharan (JMLR 2019)",
        config=LagrangianConfig,
        factory=Lagrangian,
        accepts=(Constrained,),
        requires=(
            Capability.CONSTRAINTS,
            Capability.ONLY_NUMBERED_CONSTRAINTS,
        ),
        goal_passes=2500.0,
        calls_per_step=calls_per_step,
    )
