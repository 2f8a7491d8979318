"""Mini-batch DRO: the gradient of the robust risk of a mini-batch, as if the batch were the data.

    D(S) = g'_S(x)^T f'(g_S(x)) + h'_S(x)
    x <- prox_{a_k r}(x - a_k D),    a_k = a (1 + (k - 1) / delay)^{-1/2}

`estimator=batch`: D = D(S) for one draw of `batch` rows. The same rows go into the inner value and the Jacobian, and
`f'` of a mean over few rows is not the mean of `f'`: the gradient is biased, by O(1 / batch), and the method ends near
a minimiser of the expected batch objective instead.

`estimator=multilevel`: the bias of the largest batch at the cost of small ones; see `multilevel`.

State: the point, the mean of the iterates, the number of steps. Cost of a step: `batch` oracle calls, or 2^J `batch`,
which is (levels + 1) `batch` in the mean.

Reference: Levy, Carmon, Duchi, Sidford, "Large-scale methods for distributionally robust optimization" (NeurIPS 2020),
sections 3 (batch estimator) and 4 (multilevel Monte Carlo).
Deviations: plain proximal steps with a decaying step size, no acceleration, and averaging only with the multilevel
estimator unless asked for; any composite, not only the sets of that paper. Multilevel rows are drawn with replacement,
as there.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Communicator,
    Composite,
    CompositeOracle,
    SettingError,
    Solver,
    StepConfig,
    direction,
    extended_mean,
    first_step,
    refresh,
    require_one_of,
    require_positive,
)
from drobench_plugins.solvers.pieces.multilevel import most_levels, multilevel_draws, multilevel_gradient


@dataclass(kw_only=True)
class MinibatchDroConfig(StepConfig):
    """Hyperparameters of mini-batch DRO."""

    estimator: str = "batch"
    """`batch` (biased by the size of the batch) or `multilevel` (biased only as the largest batch is)."""
    delay: int = 100
    """Steps before the step size begins to decay in earnest."""
    batch: int = 32
    """Rows of a draw; of the smallest one with `estimator=multilevel`."""
    levels: int | None = None
    """Doublings up to the largest batch; null: as many as stay within the rows, at least one."""
    output: str | None = None
    """`last`, or `average`, the mean of the iterates; null: the last with `batch`, the mean with `multilevel`, whose
    rare corrections are as large as they are rare."""
    replacement: bool = False
    """Whether `estimator=batch` draws with replacement; `multilevel` always does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "estimator", ("batch", "multilevel"))
        if self.output is not None:
            require_one_of(self, "output", ("last", "average"))
        require_positive(self, "delay", "batch", "levels")


@dataclass(frozen=True)
class MinibatchDroState:
    """Everything the method carries from step to step."""

    point: Tensor
    mean: Tensor
    steps: int
    step_size: float


class MinibatchDro(Solver[MinibatchDroState]):
    """See the module's text."""

    def __init__(self, config: MinibatchDroConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> MinibatchDroState:
        step_size = first_step(self.config, oracle, communicator, start)
        return MinibatchDroState(start, torch.zeros_like(start), 0, step_size)

    def step(self, state: MinibatchDroState, oracle: CompositeOracle, communicator: Communicator) -> MinibatchDroState:
        gradient = self.gradient(state.point, oracle, communicator)
        step_size = state.step_size * (1.0 + state.steps / self.config.delay) ** -0.5
        point = oracle.prox(state.point - step_size * gradient, step_size)
        count = state.steps + 1
        return MinibatchDroState(point, extended_mean(state.mean, point, count), count, state.step_size)

    def gradient(self, point: Tensor, oracle: CompositeOracle, communicator: Communicator) -> Tensor:
        """Return one estimate of the gradient of the smooth part at `point`."""
        if self.config.estimator == "multilevel":
            levels = levels_of(self.config, oracle)
            return multilevel_gradient(point, self.config.batch, levels, oracle, communicator)
        rows = oracle.draw(self.config.batch, self.config.batch, replacement=self.config.replacement)
        return direction(refresh(oracle, communicator, point, rows), oracle)

    def solution(self, state: MinibatchDroState) -> Tensor:
        output = self.config.output or ("average" if self.config.estimator == "multilevel" else "last")
        return state.mean if output == "average" and state.steps else state.point

    def average(self, state: MinibatchDroState) -> Tensor | None:
        return state.mean if state.steps else None


def levels_of(config: MinibatchDroConfig, oracle: CompositeOracle) -> int:
    """Return the number of doublings from the smallest batch to the largest."""
    most, rows = most_levels(config.batch, oracle)
    if config.levels is not None and config.levels > most:
        raise SettingError(
            f"MinibatchDroConfig.levels must be at most {most} for {rows} rows and batch={config.batch}, or the "
            f"largest batch would have more rows than there are; found {config.levels}. Change `levels=`."
        )
    return config.levels or most


def _calls(config: MinibatchDroConfig, oracle: CompositeOracle) -> set[int]:
    """A part of a draw that has as many rows as there are is all of them."""

    def cost(sizes: list[int]) -> int:
        return sum(min(size, oracle.samples) + min(size, oracle.constraints) for size in sizes)

    if config.estimator == "batch":
        return {cost([config.batch])}
    return {cost(sizes) for sizes in multilevel_draws(config.batch, levels_of(config, oracle))}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="minibatch_dro",
        summary="Gradient steps on the robust risk of mini-batches, with one batch (biased) or several levels of them.",
        reference="Levy, Carmon, Duchi, Sidford (NeurIPS 2020), batch and multilevel estimators",
        config=MinibatchDroConfig,
        factory=MinibatchDro,
        accepts=(Composite,),
        calls_per_step=_calls,
    )
