"""Driving a solver by hand on a small problem, as the training loop does."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from drobench.checks.known_solutions import KnownProblem, known_problems
from drobench.errors import DrobenchError
from drobench.objective.oracle import Oracle
from drobench.objective.oracles.build import build_oracle
from drobench.objective.sampling import Shard
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import Route, find_route
from drobench.registry import SolverEntry, check_requirements, load_catalogue
from drobench.registry.reformulations import reformulations_of
from drobench.solver import Communicator, SingleProcess, Solver

# Wide enough for the smoothed problems to be harmless: what is checked on them is conduct, not accuracy.
_OPTIONS = ReformulationConfig(gamma=0.3)


@dataclass(frozen=True, eq=False)
class Trial:
    """One small problem in the form that a solver works on."""

    problem: KnownProblem
    route: Route
    start: Tensor
    """The start, in the variables of that form."""

    @property
    def name(self) -> str:
        """What the problem is called."""
        return self.problem.name

    @property
    def equivalent(self) -> bool:
        """Whether a solution of the form is one of the problem, with nothing smoothed or given up."""
        return not any(step.relaxation or step.default_widths for step in self.route.steps)

    def oracle(self, seed: int, shard: Shard | None = None) -> Any:
        """Return a new counted oracle."""
        return build_oracle(self.route.form, seed, self.start, shard or Shard())


class ManyProblems(Protocol):
    """A source of known problems, such as `known_problems`."""

    def __call__(self, dtype: torch.dtype, *, spoiled: bool = False) -> list[KnownProblem]:
        """Return all of them; `spoiled` puts "not a number" into the data."""


def find_trials(
    entry: SolverEntry,
    config: Any,
    dtype: torch.dtype = torch.float64,
    *,
    spoiled: bool = False,
    problems: ManyProblems = known_problems,
) -> list[Trial]:
    """Return those of the known problems that lead to a form the solver accepts, and that it does not refuse."""
    # Whether it is refused is seen on sound data: a refusal of spoiled data is an answer.
    refused = refusals(entry, config, problems(dtype))
    return [_trial(entry, problem) for problem in problems(dtype, spoiled=spoiled) if not refused[problem.name]]


def refusals(entry: SolverEntry, config: Any, problems: Iterable[KnownProblem]) -> dict[str, str]:
    """Return why the solver takes none of some problems, by their names; empty for those it takes."""
    return {problem.name: _refusal(entry, config, problem) for problem in problems}


def _trial(entry: SolverEntry, problem: KnownProblem) -> Trial:
    route = find_route(problem.form, entry.accepts, _OPTIONS, reformulations_of(load_catalogue()))
    return Trial(problem, route, route.lift(problem.start))


def _refusal(entry: SolverEntry, config: Any, problem: KnownProblem) -> str:
    """Return why the solver does not take the problem; empty if it does."""
    try:
        trial = _trial(entry, problem)
        if any(step.relaxation for step in trial.route.steps):
            # What is left is a problem of another kind, which has a place of its own in the list.
            return f"only a relaxation leads there ({', '.join(trial.route.names)})"
        check_requirements(entry, trial.route.form)
        with torch.no_grad():
            entry.factory(config).init(trial.start, trial.oracle(0), SingleProcess())
    except DrobenchError as error:
        return str(error)
    return ""


@torch.no_grad()
def states(
    solver: Solver[Any], oracle: Oracle, start: Tensor, steps: int, communicator: Communicator | None = None
) -> Iterator[Any]:
    """Yield the state after `init` and after each of `steps` steps."""
    communicator = communicator or SingleProcess()
    state = solver.init(start, oracle, communicator)
    yield state
    for _ in range(steps):
        state = solver.step(state, oracle, communicator)
        yield state


def last(found: Iterator[Any]) -> Any:
    """Return the last of some states."""
    state = None
    for state in found:  # noqa: B007  # the last one is what is wanted
        pass
    return state
