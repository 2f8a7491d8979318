"""The contract of a solver: a value goes in, a value comes out.

Everything that changes from step to step is in the state, a frozen dataclass of tensors, numbers and further such
dataclasses. `step` changes none of its arguments but the oracle's counters and generator. So a checkpoint is the state
plus `oracle.state_dict()`, and every solver can be resumed, repeated and compared without knowing it.
"""

import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from drobench.errors import DrobenchError
from drobench.solver.communicator import Communicator

State = TypeVar("State")


class Solver(ABC, Generic[State]):
    """An iterative method. `self` holds hyperparameters only.

    The oracle is the one of the form that the solver's entry accepts; a subclass annotates it as such.
    """

    @abstractmethod
    def init(self, start: Tensor, oracle: Any, communicator: Communicator) -> State:
        """Return the state before the first step. Its annotated return type is what a checkpoint is read back into."""

    @abstractmethod
    def step(self, state: State, oracle: Any, communicator: Communicator) -> State:
        """Return the state after one step."""

    @abstractmethod
    def solution(self, state: State) -> Tensor:
        """Return the point the method stands for, which is the point that is judged."""

    def ended(self, state: State) -> bool:
        """Return whether the method has come to an end of its own, which ends the run; most never do."""
        return False

    def stalled(self, state: State) -> bool:
        """Return whether more work on this stage of a continuation would not be worth it, so that the next may begin.

        Called between steps; what decides must be the same on every process.
        """
        return False

    def resting(self, state: State) -> bool:
        """Return whether nothing would be lost if a stage of a continuation ended here; its end waits for that."""
        return True

    def sharpen(self, state: State, oracle: Any, communicator: Communicator) -> State:
        """Return the state that goes on with the next stage of a continuation, whose oracle this is."""
        return self.init(self.solution(state), oracle, communicator)

    def average(self, state: State) -> Tensor | None:
        """Return the method's averaged iterate, or `None` if it keeps none."""
        return None


def state_to_dict(state: Any) -> dict[str, Any]:
    """Return a state as nested dictionaries of tensors and numbers."""
    return {
        field.name: state_to_dict(value) if is_dataclass(value := getattr(state, field.name)) else value
        for field in fields(state)
    }


def state_from_dict(kind: Any, content: Mapping[str, Any]) -> Any:
    """Return the state of class `kind` that `state_to_dict` turned into `content`."""
    plain = typing.get_origin(kind) or kind
    # Where a state holds that of a solver within, its class has that state's as a parameter.
    within = dict(zip(getattr(plain, "__parameters__", ()), typing.get_args(kind), strict=True))
    hints = {name: within.get(hint, hint) for name, hint in typing.get_type_hints(plain).items()}
    values = {
        name: state_from_dict(_dataclass_in(hints[name], name), value) if isinstance(value, Mapping) else value
        for name, value in content.items()
    }
    return plain(**values)


def state_type(solver: Solver[Any]) -> Any:
    """Return the class of the solver's state, read from the annotation of `init`.

    That of a solver around another, in its attribute `inner`, has the state of the other as a parameter.
    """
    kind = typing.get_type_hints(type(solver).init).get("return")
    plain = typing.get_origin(kind) or kind
    if not (isinstance(plain, type) and is_dataclass(plain)):
        raise DrobenchError(
            f"{type(solver).__name__}.init must be annotated with the dataclass it returns, so that a checkpoint can "
            f"be read back; found {kind!r}."
        )
    inner = getattr(solver, "inner", None)
    return plain[state_type(inner)] if plain is not kind and isinstance(inner, Solver) else plain  # type: ignore[index]  # a generic dataclass


def _dataclass_in(hint: Any, name: str) -> type:
    """Return the dataclass in an annotation such as `Snapshot | None`."""
    for option in typing.get_args(hint) or (hint,):
        if isinstance(option, type) and is_dataclass(option):
            return option
    raise DrobenchError(f"The state field {name!r} holds a nested value, but its annotation {hint!r} is no dataclass.")
