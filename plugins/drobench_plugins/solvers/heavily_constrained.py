"""Lagrange-multiplier models for very many constraints.

Method for `min O(theta)` subject to `c_k(theta) <= 0`, `k = 1..M`: instead of one multiplier for each constraint, a
small network computes them all, `lambda_k = |mult(features_k; phi)|`. Each step draws constraints `C` and samples and
takes one step of one optimizer on `(theta, phi)` for

    O + sum_C stop(lambda_k) proxy_k - dual_scale sum_C lambda_k stop(rate_k)

with differentiable proxies for `theta` and exact 0-1 rates for `phi`: see `joint_descent` for the updates.

State: the point, the network's parameters, one accumulator over both, and the snapshots from which the best candidate
is chosen (see `best_candidate`). Cost of a step: S sample calls and 2 C constraint checks (C without `dual_rates`); a
snapshot costs all samples (their mean loss) and all constraints (their rates) once more.

Reference: Narasimhan, Cotter, Zhou, Wang, Guo, "Approximate Heavily-Constrained Learning with Lagrange Multiplier
Models", NeurIPS 2020, Algorithm 1 and its released code; selection after Cotter et al. (JMLR 2019).

Notes and deviations:
    - the released code keeps running averages of the denominators of rates. The oracle's rates have the exact
      denominators of the rows they are computed on, which is what such an average is with all rows in every step;
    - a ranking problem's two constraints of a query have one row of features each. They differ either by a column that
      marks the side, or, with `outputs=2`, by reading one of two outputs in turn as in the released code;
    - `broadcast_defect` reproduces the script for noisy groups, in which a product of a column of multipliers and a row
      of constraints is summed as a matrix: `C^2 O + (sum lambda)(sum proxy) - dual_scale (sum lambda)(sum rate)`. It
      leaves the regularizer, which that script does not have, as it is.
"""

from dataclasses import dataclass, field

from drobench.registry import SolverEntry
from drobench.solver import Capability, Constrained, SettingError, require_one_of, require_positive
from drobench_plugins.solvers.pieces.joint_config import JointDescentConfig, calls_per_step
from drobench_plugins.solvers.pieces.joint_descent import JointDescent
from drobench_plugins.solvers.pieces.multipliers import ACTIVATIONS, MultiplierNetwork


@dataclass
class HeavilyConstrainedConfig(JointDescentConfig):
    """Hyperparameters of the multiplier model, beside those of the joint step."""

    hidden: list[int] = field(default_factory=list)
    """Widths of the multiplier network's hidden layers; none: linear in the features."""
    activation: str = "relu"
    """`relu` or `tanh`, after each hidden layer."""
    outputs: int = 1
    """Outputs of the network, which the constraints read in turn."""
    normalise_features: bool = False
    """Give the features of the constraints mean 0 and deviation 1."""
    broadcast_defect: bool = False
    """Sum the matrix of all products of multipliers and constraints, as one released script does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "activation", tuple(ACTIVATIONS))
        require_positive(self, "outputs")
        if any(width < 1 for width in self.hidden):
            raise SettingError(
                f"HeavilyConstrainedConfig.hidden must hold widths of at least 1; found {list(self.hidden)}. "
                "Change `hidden=`."
            )


class HeavilyConstrained(JointDescent):
    """See the module's text."""

    def __init__(self, config: HeavilyConstrainedConfig) -> None:
        network = MultiplierNetwork(
            config.hidden, config.activation, config.outputs, normalise=config.normalise_features
        )
        super().__init__(config, network)
        self.broadcast_defect = config.broadcast_defect


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="heavily_constrained",
        summary="Lagrangian steps whose multipliers are a small network of the constraints' features.",
        reference="Narasimhan, Cotter, Zhou, Wang, Guo (NeurIPS 2020), Algorithm 1",
        config=HeavilyConstrainedConfig,
        factory=HeavilyConstrained,
        accepts=(Constrained,),
        requires=(
            Capability.CONSTRAINTS,
            Capability.ONLY_NUMBERED_CONSTRAINTS,
        ),
        goal_passes=2500.0,
        calls_per_step=calls_per_step,
    )
