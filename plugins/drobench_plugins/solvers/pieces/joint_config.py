"""Settings of the step on parameters and multipliers together; see `joint_descent`."""

from dataclasses import dataclass

from drobench.solver import (
    OPTIMIZERS,
    ConstrainedOracle,
    SettingError,
    require_non_negative,
    require_one_of,
    require_positive,
)


@dataclass
class JointDescentConfig:
    """Hyperparameters that all Lagrangian solvers have."""

    optimizer: str = "adagrad"
    """`adagrad`, `sgd` or `adam`, on parameters and multipliers together."""
    learning_rate: float = 0.1
    accumulator: float = 0.1
    """Start of Adagrad's sums of squares. Keras has 0.1, torch 0, with which `dual_scale` has no effect."""
    epsilon: float = 1e-7
    """Added to the roots of Adagrad and Adam; 1e-7 as in Keras."""
    dual_scale: float = 1.0
    """How much faster the multipliers move than a plain ascent would move them."""
    dual_rates: bool = True
    """Move the multipliers by the exact rates; false: by the differentiable proxies."""
    batch: int | None = None
    """Samples of the mean loss in a step; null: all."""
    constraint_batch: int | None = None
    """Constraints of a step; null: all."""
    constraint_order: str = "uniform"
    """`uniform`: drawn at random. `cyclic`: the next ones in turn."""
    replacement: bool = False
    average: bool = False
    """Also keep the running mean of the iterates."""
    output: str = "last"
    """`last`, or `best_candidate` among the snapshots."""
    snapshot_every: int | None = None
    """Steps between snapshots, each of which costs a pass over all samples and all constraints; null: none."""
    snapshot_from: int = 0
    """No snapshot before this step."""
    snapshots: int = 100
    """How many points of snapshots to hold at most."""
    rank_objectives: bool = True
    """Rank snapshots by objective and violation; false: by violation, the objective decides between equals."""

    def __post_init__(self) -> None:
        require_one_of(self, "optimizer", OPTIMIZERS)
        require_one_of(self, "constraint_order", ("uniform", "cyclic"))
        require_one_of(self, "output", ("last", "best_candidate"))
        require_positive(self, "learning_rate", "batch", "constraint_batch", "snapshot_every", "snapshots")
        require_non_negative(self, "accumulator", "epsilon", "dual_scale", "snapshot_from")
        if self.output == "best_candidate" and self.snapshot_every is None:
            raise SettingError(
                f"{type(self).__name__}.output=best_candidate chooses among snapshots, but snapshot_every=null takes "
                "none. Change `snapshot_every=` or `output=`."
            )


def calls_per_step(config: JointDescentConfig, oracle: ConstrainedOracle) -> set[int]:
    """Return what a step may cost: samples, constraints once or twice, and at a snapshot everything once more."""
    samples = min(config.batch or oracle.samples, oracle.samples)
    constraints = min(config.constraint_batch or oracle.constraints, oracle.constraints)
    step = samples + constraints * (2 if config.dual_rates else 1)
    return {step} if config.snapshot_every is None else {step, step + oracle.samples + oracle.constraints}
