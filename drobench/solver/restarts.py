"""Stages: a method of epochs that begins again, a given number of times, from the output of the stage before.

The recipe of the strongly convex theorem: K stages of T = max(1, ceil(5 / (sqrt(m) mu eta))) epochs each. Where the
output is the last iterate that is one long run of K T epochs.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor

from drobench.errors import SettingError, require_positive
from drobench.objective.oracles.composite import CompositeOracle
from drobench.solver.communicator import Communicator
from drobench.solver.safeguards import Safeguard
from drobench.solver.solver import Solver


class EpochState(Protocol):
    """What the stages look at in the state of the method within."""

    @property
    def point(self) -> Tensor:
        """The last iterate."""

    @property
    def position(self) -> int:
        """Steps since the epoch began; 0: it is over."""

    @property
    def epoch(self) -> int:
        """Epochs begun."""

    @property
    def safeguard(self) -> Safeguard:
        """With the step size, and what was accepted."""


Inner = TypeVar("Inner", bound=EpochState)


class EpochMethod(Solver[Inner]):
    """A method of epochs that can be begun again."""

    monotone: bool
    """Whether an epoch is judged by the refresh that follows it."""

    @abstractmethod
    def begin_epoch(self, state: Inner, oracle: CompositeOracle, communicator: Communicator) -> Inner:
        """Return the state after the refresh that begins an epoch, and judges the one before."""

    @abstractmethod
    def begin_stage(self, state: Inner) -> Inner:
        """Return the state that starts from the output of `state`."""


@dataclass(kw_only=True)
class RestartsConfig:
    """Settings of the stages; by default there is one, without end."""

    restarts: int | None = None
    """K, stages of the strongly convex recipe, after which no more data are asked for; null: one stage without end."""
    stage_epochs: int | None = None
    """T, epochs of a stage; null: max(1, ceil(5 / (sqrt(m) mu eta)))."""
    strong_convexity: float | None = None
    """mu of that rule; null: the regularizer's, such as `problem.l2`."""

    def __post_init__(self) -> None:
        require_positive(self, "restarts", "stage_epochs", "strong_convexity")
        given = [name for name in ("stage_epochs", "strong_convexity") if getattr(self, name) is not None]
        if self.restarts is None and given:
            raise SettingError(
                f"{type(self).__name__}.{given[0]} is about the stages of `restarts=`, which is not set. Set it, or "
                f"leave `{given[0]}=` out."
            )


@dataclass(frozen=True)
class RestartedState(Generic[Inner]):
    """The state of the method within, and how far the stages are."""

    inner: Inner
    stage: int
    """Stages that are over; one more once the last of them has been judged."""
    stage_epochs: int
    """T."""
    stage_end: int
    """The number of epochs at which this stage is over."""


class Restarted(Solver[RestartedState[Inner]]):
    """See the module's text."""

    def __init__(self, inner: EpochMethod[Inner], config: RestartsConfig) -> None:
        assert config.restarts is not None
        self.inner, self.config, self.stages = inner, config, config.restarts

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> RestartedState[Inner]:
        state = self.inner.init(start, oracle, communicator)
        epochs = self.config.stage_epochs or self._epochs(state.safeguard.step_size, oracle)
        return RestartedState(state, 0, epochs, epochs)

    def _epochs(self, step_size: float, oracle: CompositeOracle) -> int:
        strength = self.config.strong_convexity or oracle.strong_convexity
        if strength == 0.0:
            raise SettingError(
                "solver.restarts derives the length of a stage from the strong convexity of the objective, and none is "
                "known of this problem's regularizer. Set problem.l2 above 0, solver.strong_convexity or "
                "solver.stage_epochs."
            )
        root = math.sqrt(max(oracle.samples, oracle.constraints))
        return max(1, math.ceil(5.0 / (root * strength * step_size)))

    def step(
        self, state: RestartedState[Inner], oracle: CompositeOracle, communicator: Communicator
    ) -> RestartedState[Inner]:
        if self.ended(state):
            return state
        if state.stage >= self.stages:
            # All stages are over, and the safeguard has not yet seen where the last epoch led.
            judged = self.inner.begin_epoch(state.inner, oracle, communicator)
            return replace(state, inner=judged, stage=state.stage + 1)
        inner = self.inner.step(state.inner, oracle, communicator)
        if inner.position > 0 or inner.epoch < state.stage_end:
            return replace(state, inner=inner)
        return RestartedState(
            self.inner.begin_stage(inner), state.stage + 1, state.stage_epochs, inner.epoch + state.stage_epochs
        )

    def ended(self, state: RestartedState[Inner]) -> bool:
        if state.stage < self.stages:
            return False
        return state.stage > self.stages or not self.inner.monotone or state.inner.safeguard.accepted is None

    def solution(self, state: RestartedState[Inner]) -> Tensor:
        return self.inner.solution(state.inner)

    def average(self, state: RestartedState[Inner]) -> Tensor | None:
        return self.inner.average(state.inner)


def with_restarts(method: EpochMethod[Inner], config: RestartsConfig) -> Solver[Any]:
    """Return the method, in stages where the settings ask for them."""
    return method if config.restarts is None else Restarted(method, config)
