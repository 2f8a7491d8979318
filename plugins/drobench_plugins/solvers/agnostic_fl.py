"""Stochastic AFL: agnostic federated learning, by projected gradient steps on parameters and weights of clients.

A client is a group of samples with mean loss `L_k(x)` and weight `q_k`. From the same `(x, q)`:

    x <- x - a_j d_x                    d_x estimates sum q_k grad L_k(x)
    q <- P(q + b_j d_q)                 d_q estimates (L_1, ..., L_G), less the slope of a price; P: on the simplex

with `a_j = a (1 + (j - 1) / delay)^{-1/2}` and `b_j` alike.

`gradient=per_client`: `batch` rows of every client, and both estimates from their means. `gradient=weighted`: `batch`
rows of clients drawn by their weights, whose mean gradient is `d_x`, and `batch` rows of clients drawn uniformly for
`d_q`, which is G times the part of a client in the mean loss of these. Both are unbiased; the second does not need
every client in every step.

State: the joint variable of parameters and weights, the number of steps, two running means. Cost of a step: G `batch`
(per_client) or 2 `batch` (weighted) oracle calls, and one projection; one exchange with several processes, or two.

Reference: Mohri, Sivek, Suresh, "Agnostic federated learning" (ICML 2019), Stochastic-AFL with the PerDomain and the
Weighted stochastic gradients.
Deviations: the set of all mixtures is the whole simplex; the parameters are not confined to a ball; step sizes fall, as
the number of steps is not known beforehand; the regularizer enters by its gradient; the mean is over the last half to
three quarters of the steps.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import Communicator, GroupedMinMax, GroupedMinMaxOracle, Solver, require_one_of, require_positive
from drobench_plugins.solvers.pieces.saddle_steps import pooled, pooled_operator
from drobench_plugins.solvers.pieces.suffix_mean import SuffixMean, extend, no_mean


@dataclass
class AgnosticFlConfig:
    """Hyperparameters of stochastic AFL."""

    step_size: float = 0.5
    """a."""
    client_step: float = 0.05
    """b, the step on the weights of the clients."""
    delay: int = 100
    """How long steps keep their size: step j has the factor `(1 + (j - 1) / delay)^{-1/2}`."""
    gradient: str = "per_client"
    """`per_client` (rows of every client) or `weighted` (rows of clients drawn by their weights)."""
    batch: int = 1
    """Rows of every client (per_client), or of each of the two draws (weighted)."""
    output: str = "average"
    """`average`, of the later steps, or `last`."""

    def __post_init__(self) -> None:
        require_one_of(self, "gradient", ("per_client", "weighted"))
        require_one_of(self, "output", ("average", "last"))
        require_positive(self, "step_size", "client_step", "delay", "batch")


@dataclass(frozen=True)
class AgnosticFlState:
    """Everything stochastic AFL carries from step to step."""

    joint: Tensor
    steps: int
    mean: SuffixMean


class AgnosticFl(Solver[AgnosticFlState]):
    """See the module's text."""

    def __init__(self, config: AgnosticFlConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: GroupedMinMaxOracle, communicator: Communicator) -> AgnosticFlState:
        return AgnosticFlState(start, 0, no_mean(start))

    def step(self, state: AgnosticFlState, oracle: GroupedMinMaxOracle, communicator: Communicator) -> AgnosticFlState:
        decay = (1.0 + state.steps / self.config.delay) ** -0.5
        if self.config.gradient == "per_client":
            rows = oracle.draw_groups([self.config.batch] * oracle.groups)
            against = pooled_operator(oracle, communicator, state.joint, rows)
        else:
            against = self._weighted(state.joint, oracle, communicator)
        steps = torch.full_like(state.joint, self.config.step_size * decay)
        steps[oracle.dimension - oracle.groups :] = self.config.client_step * decay
        joint = oracle.project(state.joint - steps * against)
        return AgnosticFlState(joint, state.steps + 1, extend(state.mean, joint))

    def _weighted(self, joint: Tensor, oracle: GroupedMinMaxOracle, communicator: Communicator) -> Tensor:
        """Return the operator's estimate from two draws of clients: by their weights, and uniformly."""
        batch = self.config.batch
        weights = joint[oracle.dimension - oracle.groups :]
        if not bool(weights.isfinite().all()):
            # There is nothing to draw from; the run shows what has become of it.
            return torch.full_like(joint, torch.nan)
        shares = weights.double().cpu().numpy()
        chosen = oracle.generator.multinomial(batch, shares / shares.sum())
        rows = oracle.draw_groups(chosen.tolist(), replacement=True)
        _, gradient = oracle.group_losses(joint, rows)
        downhill = pooled(gradient(torch.from_numpy(chosen).to(joint) / batch), rows, communicator)
        uniform = oracle.generator.multinomial(batch, [1.0 / oracle.groups] * oracle.groups)
        rows = oracle.draw_groups(uniform.tolist(), replacement=True)
        losses, _ = oracle.group_losses(joint, rows)
        shares_seen = torch.from_numpy(uniform).to(joint) * (oracle.groups / batch)
        uphill = shares_seen * pooled(losses, rows, communicator)
        return torch.cat([downhill, oracle.penalty_slope(joint) - uphill])

    def solution(self, state: AgnosticFlState) -> Tensor:
        average = self.average(state)
        return state.joint if self.config.output == "last" or average is None else average

    def average(self, state: AgnosticFlState) -> Tensor | None:
        return state.mean.value


def _calls_per_step(config: AgnosticFlConfig, oracle: GroupedMinMaxOracle) -> set[int]:
    if config.gradient == "weighted":
        return {2 * config.batch}
    return {int(oracle.group_sizes.clamp(max=config.batch).sum())}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="agnostic_fl",
        summary="Projected gradient steps on parameters and weights of clients, from rows of every client.",
        reference="Mohri, Sivek, Suresh (ICML 2019), Stochastic-AFL",
        config=AgnosticFlConfig,
        factory=AgnosticFl,
        accepts=(GroupedMinMax,),
        goal_gap=1e-2,
        calls_per_step=_calls_per_step,
    )
