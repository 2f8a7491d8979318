"""Whether the optimum of a problem can be proved."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from drobench.checks.problems.subject import ProblemSubject
from drobench.objective.forms import RobustRisk
from drobench.objective.oracles.build import build_oracle
from drobench.reasons import reason_of
from drobench.reformulation.certificates import lower_bound
from drobench.registry import SolverEntry
from drobench.solver import SingleProcess

_CERTIFIED = 1e-6


class OptimumChecks(ProblemSubject):
    """A reference solver and a lower bound meet."""

    def test_optimum_is_certified(self) -> None:
        """Where the problem is convex, a lower bound proves the optimum of a reference solver."""
        problem = self.problem()
        form = problem.form
        if isinstance(form, RobustRisk) and not form.convex and form.losses.convex:
            form = replace(form, ambiguity=form.ambiguity.minorant())
        if not form.convex:
            pytest.skip("the problem is not convex")
        start = problem.start(torch.Generator().manual_seed(0))
        if lower_bound(form, start) is None:
            pytest.skip("no lower bound is known for a problem of this kind")
        solvers = [found.entry for found in self.catalogue().solvers.values() if found.entry.exact]
        usable = [entry for entry in solvers if isinstance(form, entry.accepts)]
        if not usable:
            pytest.skip(f"no exact reference solver for a {type(form).__name__} is installed")
        with torch.no_grad():
            reference, state, best = self._solved(form, start, usable)
            value, below = float(form.value(best)), lower_bound(form, best, getattr(state, "dual", None))
            assert below is not None
            self.expect(
                abs(value - below) <= _CERTIFIED * max(abs(value), 1e-12),
                f"the optimum of {reference} to be certified to {_CERTIFIED:g}",
                f"the value {value:.9g} and the lower bound {below:.9g}",
                "correct value, gradient or `convex` of the form",
            )
            for point in self.points(problem):
                bound = lower_bound(form, point)
                self.expect(
                    bound is None or bound <= value + _CERTIFIED * abs(value),
                    f"no lower bound above the value {value:.9g}",
                    f"{bound}",
                    "correct gradient or `convex` of the form: a bound of a convex problem holds everywhere",
                )

    def _solved(self, form: Any, start: Tensor, references: Sequence[SolverEntry]) -> tuple[str, Any, Tensor]:
        """Return name, last state and solution of the first reference solver that does not refuse."""
        refusals = []
        for entry in references:
            try:
                solver, oracle, alone = entry.factory(entry.config()), build_oracle(form, 0, start), SingleProcess()
                state = solver.step(solver.init(start, oracle, alone), oracle, alone)
            except Exception as error:  # libraries raise errors of their own, and one reference need not be all
                refusals.append(f"{entry.name}: {reason_of(error)}")
                continue
            return entry.name, state, solver.solution(state)
        return self.fail(
            f"an exact reference solver that solves a {type(form).__name__} of this kind",
            f"that none does ({'; '.join(refusals)})",
            "where the form is to blame for what is said there, correct it; else bring a reference of your own, a "
            "solver whose entry says `exact=True`, or skip this check with the reason",
        )
