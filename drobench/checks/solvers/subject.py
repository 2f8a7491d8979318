"""The solver in question, and the small problems that it is tried on."""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch

from drobench.checks.subject import Checks
from drobench.checks.trials import Trial, find_trials, states
from drobench.registry import SolverEntry
from drobench.solver import Solver

# Steps of a trial: enough for several epochs of the methods that have any.
STEPS = 40


class SolverSubject(Checks):
    """What all checks of solvers share."""

    kind: ClassVar[str] = "solver"
    subject: SolverEntry

    def build(self) -> Solver[Any]:
        """Return a new solver with the settings in question."""
        solver: Solver[Any] = self.subject.factory(self.config)
        return solver

    def trials(self, dtype: torch.dtype = torch.float64, *, spoiled: bool = False) -> list[Trial]:
        """Return the small problems that the solver can work on; a check without any is skipped."""
        found = find_trials(self.subject, self.config, dtype, spoiled=spoiled)
        if not found:
            pytest.skip("it has no trial: see the check `has_a_trial`")
        return found

    def trace(self, trial: Trial, seed: int) -> Iterator[Any]:
        """Yield the states of a new run."""
        return states(self.build(), trial.oracle(seed), trial.start, STEPS)


def names(forms: typing.Iterable[type]) -> str:
    """Return the names of classes, for a message."""
    return ", ".join(form.__name__ for form in forms)


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield what a state holds that is no dataclass itself, with its path."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), f"{path}.{field.name}")
    else:
        yield path, value
