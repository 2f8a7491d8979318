"""Plain empirical risk by SGD, Adagrad or Adam: what one gets without robustness or constraints.

    sgd             x <- prox_{eta r}(x - eta g)
    adagrad, adam   x <- x - the step of `drobench.solver.adaptive` for g

`g` is the mean gradient of the losses on the batch, for Adagrad and Adam plus the gradient of the regularizer (a
diagonal metric has no closed-form proximal map). State: the point, two vectors, the number of steps. Cost of a step:
S oracle calls.

References: Duchi, Hazan, Singer (JMLR 2011); Kingma and Ba (ICLR 2015). The updates are torch's, number for number.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    OPTIMIZERS,
    TORCH_EPSILON,
    Communicator,
    FiniteSum,
    FiniteSumOracle,
    Moments,
    Solver,
    adaptive_step,
    extended_mean,
    no_moments,
    require_non_negative,
    require_one_of,
    require_positive,
)


@dataclass
class UnconstrainedConfig:
    """Hyperparameters of the plain methods."""

    optimizer: str = "adagrad"
    """`sgd`, `adagrad` or `adam`."""
    learning_rate: float = 0.1
    batch: int | None = None
    """null: all rows in every step."""
    initial_accumulator: float = 0.0
    """Start of Adagrad's sums of squares; Keras has 0.1."""
    epsilon: float | None = None
    """null: torch's value for the optimizer."""
    replacement: bool = False

    def __post_init__(self) -> None:
        require_one_of(self, "optimizer", OPTIMIZERS)
        require_positive(self, "learning_rate", "batch")
        require_non_negative(self, "initial_accumulator", "epsilon")


@dataclass(frozen=True)
class UnconstrainedState:
    """Everything the plain methods carry from step to step."""

    point: Tensor
    steps: int
    mean: Tensor
    first_moment: Tensor
    """Adam's running mean of gradients; zero for the others."""
    second_moment: Tensor
    """Adagrad's sum, or Adam's running mean, of squared gradients."""


class Unconstrained(Solver[UnconstrainedState]):
    """See the module's text."""

    def __init__(self, config: UnconstrainedConfig) -> None:
        self.config = config
        self.epsilon = TORCH_EPSILON[config.optimizer] if config.epsilon is None else config.epsilon

    def init(self, start: Tensor, oracle: FiniteSumOracle, communicator: Communicator) -> UnconstrainedState:
        moments = no_moments(start, self.config.optimizer, self.config.initial_accumulator)
        return UnconstrainedState(start, 0, torch.zeros_like(start), moments.first, moments.second)

    def step(
        self, state: UnconstrainedState, oracle: FiniteSumOracle, communicator: Communicator
    ) -> UnconstrainedState:
        rows = oracle.draw(self.config.batch, replacement=self.config.replacement)
        _, gradients = oracle.estimate(state.point[None], rows)
        gradient = gradients[0]
        if communicator.world_size > 1:
            (gradient,) = communicator.total([gradient * rows.sample_share])
        proximal = self.config.optimizer == "sgd"
        if not proximal:
            gradient = gradient + oracle.regularizer_gradient(state.point)
        count, rate = state.steps + 1, self.config.learning_rate
        step, moments = adaptive_step(
            self.config.optimizer,
            gradient,
            Moments(state.first_moment, state.second_moment),
            count,
            rate=rate,
            epsilon=self.epsilon,
        )
        point = step.from_point(state.point)
        if proximal:
            point = oracle.prox(point, rate)
        mean = extended_mean(state.mean, point, count)
        return UnconstrainedState(point, count, mean, moments.first, moments.second)

    def solution(self, state: UnconstrainedState) -> Tensor:
        return state.point

    def average(self, state: UnconstrainedState) -> Tensor | None:
        return state.mean if state.steps else None


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="unconstrained",
        summary="SGD, Adagrad or Adam on the plain mean loss; no robustness, no constraints.",
        reference="Duchi, Hazan, Singer (JMLR 2011); Kingma, Ba (ICLR 2015)",
        config=UnconstrainedConfig,
        factory=Unconstrained,
        accepts=(FiniteSum,),
        goal_passes=1500.0,
        # The regret bound of Adagrad, which its last point betters on the strongly convex problems of the checks.
        rate=0.5,
        calls_per_step=lambda config, oracle: {min(config.batch or oracle.samples, oracle.samples)},
    )
