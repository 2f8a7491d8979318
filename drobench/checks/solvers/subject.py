"""The solver in question, and the small problems that it is tried on."""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch

from drobench.checks.known_solutions import KnownProblem, known_problems
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

    @classmethod
    def problems(cls, dtype: torch.dtype, *, spoiled: bool = False) -> list[KnownProblem]:
        """Return the small problems, each with its answer, that the solver is tried on if it takes them.

        A solver of a kind of problem that is not among them is given its own here, built in the precision asked for,
        and if `spoiled` with a NaN in the data.
        """
        return known_problems(dtype, spoiled=spoiled)

    def trials(self, dtype: torch.dtype = torch.float64, *, spoiled: bool = False) -> list[Trial]:
        """Return the small problems that the solver can work on; a check without any is skipped."""
        found = find_trials(self.subject, self.config, dtype, spoiled=spoiled, problems=self.problems)
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
