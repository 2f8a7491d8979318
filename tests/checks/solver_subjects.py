"""A small solver that passes its checks, and one of it for each promise that can be broken.

Here and not in a test, so that another process can import them.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.forms import FiniteSum
from drobench.objective.sampling import Rows
from drobench.registry import SolverEntry
from drobench.solver import Solver

GLOBAL = np.random.default_rng(0)
CALLS = itertools.count()


@dataclass
class DescentConfig:
    """Settings of the good solver."""

    batch: int = 8


@dataclass(frozen=True)
class DescentState:
    """What it carries from step to step."""

    point: Tensor
    total: Tensor
    steps: int


class Descent(Solver[DescentState]):
    """Proximal stochastic gradient steps, `x <- prox(x - eta_k g)`, with `eta_k = 1 / (1 + k / 20)`."""

    def __init__(self, config: DescentConfig) -> None:
        self.config = config

    def init(self, start, oracle, communicator) -> DescentState:
        return DescentState(start, torch.zeros_like(start), 0)

    def gradient(self, state, oracle, communicator):
        rows = oracle.draw(self.config.batch)
        gradient = oracle.estimate(state.point[None], rows)[1][0]
        return communicator.total([gradient * rows.sample_share])[0]

    def step(self, state: DescentState, oracle, communicator) -> DescentState:
        gradient = self.gradient(state, oracle, communicator)
        rate = 1.0 / (1.0 + state.steps / 20)
        return DescentState(oracle.prox(state.point - rate * gradient, rate), state.total + gradient, state.steps + 1)

    def solution(self, state: DescentState) -> Tensor:
        return state.point


class ChangesItsState(Descent):
    def step(self, state, oracle, communicator):
        after = super().step(state, oracle, communicator)
        state.total.add_(1.0)
        return after


class RemembersInSelf(Descent):
    steps = 0

    def step(self, state, oracle, communicator):
        self.steps += 1
        return super().step(state, oracle, communicator)


class DrawsFromAGlobal(Descent):
    def step(self, state, oracle, communicator):
        after = super().step(state, oracle, communicator)
        return replace(after, point=after.point + 1e-9 * float(GLOBAL.random()))


class IgnoresItsDraw(Descent):
    def gradient(self, state, oracle, communicator):
        oracle.draw(self.config.batch)
        rows = oracle.draw()
        gradient = oracle.estimate(state.point[None], rows)[1][0]
        return communicator.total([gradient * rows.sample_share])[0]


class InDoublePrecision(Descent):
    def solution(self, state):
        return state.point.double()


class OnItsOwnDevice(Descent):
    def gradient(self, state, oracle, communicator):
        gradient = super().gradient(state, oracle, communicator)
        return gradient + torch.zeros(len(gradient), dtype=gradient.dtype)


class LooksTwiceNowAndThen(Descent):
    def step(self, state, oracle, communicator):
        if next(CALLS) % 3 == 0:
            oracle.estimate(state.point[None], Rows(slice(None)))
        return super().step(state, oracle, communicator)


class LooksBehindTheOracle(Descent):
    def gradient(self, state, oracle, communicator):
        oracle._form.losses.values(state.point)
        return super().gradient(state, oracle, communicator)


class TakesCallsBack(Descent):
    def step(self, state, oracle, communicator):
        after = super().step(state, oracle, communicator)
        oracle.counters.sample_calls -= 9
        return after


@dataclass(frozen=True)
class LongerState(DescentState):
    momentum: Tensor


class LosesItsMomentum(Descent):
    def init(self, start, oracle, communicator) -> DescentState:
        return LongerState(start, torch.zeros_like(start), 0, torch.zeros_like(start))

    def step(self, state, oracle, communicator):
        after = super().step(state, oracle, communicator)
        return LongerState(after.point, after.total, after.steps, after.point - state.point)


@dataclass
class OpenState:
    point: Tensor
    total: Tensor
    steps: int


class OpenToChange(Descent):
    def init(self, start, oracle, communicator) -> OpenState:
        return OpenState(start, torch.zeros_like(start), 0)

    def step(self, state, oracle, communicator):
        after = super().step(state, oracle, communicator)
        return OpenState(after.point, after.total, after.steps)


class StopsTooEarly(Descent):
    def gradient(self, state, oracle, communicator):
        return super().gradient(state, oracle, communicator) + 0.3


class ForgetsTheOthers(Descent):
    def gradient(self, state, oracle, communicator):
        return oracle.estimate(state.point[None], oracle.draw(self.config.batch))[1][0]


class HidesWhatIsNoNumber(Descent):
    def gradient(self, state, oracle, communicator):
        return torch.nan_to_num(super().gradient(state, oracle, communicator), nan=0.5)


class BreaksOnWhatIsNoNumber(Descent):
    def gradient(self, state, oracle, communicator):
        gradient = super().gradient(state, oracle, communicator)
        return {True: gradient}[bool(gradient.isfinite().all())]


class RefusesEverything(Descent):
    def init(self, start, oracle, communicator) -> DescentState:
        raise DrobenchError("descent works on Tuesdays only")


class TuesdaySum(FiniteSum):
    """A form that none of the known problems leads to."""


class RecordsGradients(Descent):
    def step(self, state, oracle, communicator):
        after = super().step(state, oracle, communicator)
        return replace(after, total=after.total.clone().requires_grad_())


class LooksWhetherGradientsAreRecorded(Descent):
    def gradient(self, state, oracle, communicator):
        gradient = super().gradient(state, oracle, communicator)
        return 1.01 * gradient if torch.is_grad_enabled() else gradient


class CorrectsItsStart(Descent):
    def init(self, start, oracle, communicator) -> DescentState:
        return super().init(torch.nan_to_num(start), oracle, communicator)


class SlowsDown(Descent):
    """Steps of 1 / (k + 2) on all rows, at which the gap falls like a power of k."""

    def __init__(self, config):
        super().__init__(replace(config, batch=10**6))

    def step(self, state, oracle, communicator):
        gradient, rate = self.gradient(state, oracle, communicator), 1.0 / (state.steps + 2)
        return DescentState(oracle.prox(state.point - rate * gradient, rate), state.total, state.steps + 1)


def one_batch(config, oracle):
    return {min(config.batch, oracle.samples)}


def two_batches(config, oracle):
    return {2 * config.batch}


class Alien:
    """A form that no oracle is for."""


def entry(factory=Descent, **changes) -> SolverEntry:
    fields = {
        "name": "descent",
        "summary": "Stochastic gradient steps.",
        "reference": "Robbins, Monro (1951)",
        "config": DescentConfig,
        "factory": factory,
        "accepts": (FiniteSum,),
        "calls_per_step": one_batch,
        **changes,
    }
    return SolverEntry(**fields)
