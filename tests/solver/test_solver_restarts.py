"""Stages around a method whose epochs can be counted by hand; the recipe with GCIVR has its own tests."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from drobench.errors import SettingError
from drobench.solver.restarts import EpochMethod, Restarted, RestartedState, RestartsConfig, with_restarts
from drobench.solver.safeguards import Safeguard, watch
from drobench.solver.solver import state_from_dict, state_to_dict, state_type


@dataclass(frozen=True)
class CountingState:
    point: Tensor
    position: int
    epoch: int
    safeguard: Safeguard


class Counting(EpochMethod[CountingState]):
    """Two steps an epoch, each of which adds one; a stage begins a hundred further on."""

    monotone = False

    def init(self, start, oracle, communicator) -> CountingState:
        return CountingState(start, 0, 0, watch(0.5))

    def begin_epoch(self, state, oracle, communicator):
        return replace(state, epoch=state.epoch + 1)

    def step(self, state, oracle, communicator):
        if state.position == 0:
            state = self.begin_epoch(state, oracle, communicator)
        return replace(state, point=state.point + 1, position=(state.position + 1) % 2)

    def begin_stage(self, state):
        return replace(state, point=state.point + 100)

    def solution(self, state):
        return state.point


class Strength:
    samples, constraints, strong_convexity = 16, 0, 0.25


def run(config: RestartsConfig, steps: int):
    solver = Restarted(Counting(), config)
    states = [solver.init(torch.zeros(1), Strength(), None)]
    for _ in range(steps):
        states.append(solver.step(states[-1], Strength(), None))
    return solver, states


def test_stages_end_with_their_epochs_and_the_method_with_its_stages():
    solver, states = run(RestartsConfig(restarts=2, stage_epochs=2), 9)
    assert [int(solver.solution(state)) for state in states] == [0, 1, 2, 3, 104, 105, 106, 107, 208, 208]
    assert [state.stage for state in states] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert [solver.ended(state) for state in states] == [False] * 8 + [True] * 2


def test_the_length_of_a_stage_follows_from_strong_convexity():
    # 5 / (sqrt(16) * 0.25 * 0.5) = 10
    assert run(RestartsConfig(restarts=1), 0)[1][0].stage_epochs == 10
    assert run(RestartsConfig(restarts=1, strong_convexity=100.0), 0)[1][0].stage_epochs == 1


def test_without_restarts_there_is_no_wrapper():
    method = Counting()
    assert with_restarts(method, RestartsConfig()) is method
    assert isinstance(with_restarts(method, RestartsConfig(restarts=1)), Restarted)


def test_a_state_around_another_is_read_back():
    solver, states = run(RestartsConfig(restarts=2, stage_epochs=2), 3)
    assert state_type(solver) == RestartedState[CountingState]
    content = state_to_dict(states[-1])
    found = state_from_dict(state_type(solver), content)
    assert type(found) is RestartedState
    assert type(found.inner) is CountingState
    assert type(found.inner.safeguard) is Safeguard
    assert state_to_dict(found) == content


@pytest.mark.parametrize("wrong", [{"stage_epochs": 3}, {"strong_convexity": 0.1}])
def test_settings_of_stages_need_stages(wrong):
    with pytest.raises(SettingError, match="is about the stages of `restarts=`"):
        RestartsConfig(**wrong)
