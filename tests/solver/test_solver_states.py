"""States as dictionaries and back."""

from dataclasses import dataclass, fields, is_dataclass
from typing import Optional

import pytest
import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.solver import Solver
from drobench.solver.estimators import Estimates
from drobench.solver.solver import state_from_dict, state_to_dict, state_type


@dataclass(frozen=True)
class Inner:
    value: float
    estimates: Estimates


@dataclass(frozen=True)
class State:
    point: Tensor
    steps: int
    done: bool
    inner: Inner
    maybe: Inner | None
    direct: Estimates | None
    mean: Tensor | None


def estimates(start: float) -> Estimates:
    one, two = (torch.full((k,), start + k, dtype=torch.float64) for k in (1, 2))
    return Estimates(one, one[:, None] * two, one[0], two, torch.tensor(start, dtype=torch.float64))


def same(first, second) -> bool:
    if is_dataclass(first):
        return type(first) is type(second) and all(
            same(getattr(first, field.name), getattr(second, field.name)) for field in fields(first)
        )
    if isinstance(first, Tensor):
        return isinstance(second, Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    return type(first) is type(second) and first == second


def states() -> list[State]:
    point = torch.tensor([1.0, -2.0], dtype=torch.float64)
    inner = Inner(0.5, estimates(3.0))
    return [
        State(point, 3, True, inner, None, None, None),
        State(point, 0, False, inner, Inner(-1.0, estimates(9.0)), estimates(5.0), point.float()),
    ]


@pytest.mark.parametrize("state", states(), ids=["with_none", "nested"])
def test_a_state_survives_the_round_trip(state):
    assert same(state_from_dict(State, state_to_dict(state)), state)


def test_the_comparison_of_these_tests_sees_a_difference():
    first, second = states()
    assert same(first, first)
    assert not same(first, second)


def test_the_dictionary_holds_only_tensors_numbers_and_dictionaries():
    def plain(value) -> bool:
        if isinstance(value, dict):
            return all(isinstance(key, str) and plain(item) for key, item in value.items())
        return value is None or isinstance(value, Tensor | bool | int | float)

    content = state_to_dict(states()[1])
    assert plain(content)
    assert list(content) == [field.name for field in fields(State)]
    assert content["maybe"]["estimates"]["shift"] == 9.0


def test_an_optional_part_may_be_annotated_in_the_old_way():
    @dataclass(frozen=True)
    class OldStyle:
        inner: Optional[Inner]  # noqa: UP045  # what is tested

    state = OldStyle(Inner(1.0, estimates(0.0)))
    assert same(state_from_dict(OldStyle, state_to_dict(state)), state)
    assert state_from_dict(OldStyle, {"inner": None}).inner is None


def test_a_nested_value_without_dataclass_annotation_is_refused():
    @dataclass(frozen=True)
    class Loose:
        parts: Tensor

    with pytest.raises(DrobenchError, match="'parts'"):
        state_from_dict(Loose, {"parts": {"a": 1}})


class Annotated(Solver[State]):
    def init(self, start, oracle, communicator) -> State:
        raise NotImplementedError

    def step(self, state, oracle, communicator) -> State:
        raise NotImplementedError

    def solution(self, state) -> Tensor:
        raise NotImplementedError


class Bare(Annotated):
    def init(self, start, oracle, communicator):
        raise NotImplementedError


class Wrong(Annotated):
    def init(self, start, oracle, communicator) -> dict[str, Tensor]:
        raise NotImplementedError


def test_the_type_of_the_state_is_read_from_the_annotation():
    assert state_type(Annotated()) is State


@pytest.mark.parametrize("kind", [Bare, Wrong])
def test_a_solver_without_annotated_state_is_named(kind):
    with pytest.raises(DrobenchError, match=f"{kind.__name__}.init must be annotated"):
        state_type(kind())


def test_a_solver_keeps_no_average_unless_it_says_so():
    assert Annotated().average(states()[0]) is None
