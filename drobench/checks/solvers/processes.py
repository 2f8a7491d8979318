"""Whether a solver is the same on several processes."""

from inspect import getattr_static

import pytest

from drobench.checks.known_solutions import known_problems
from drobench.checks.solvers.subject import SolverSubject
from drobench.checks.two_ranks import Request, on_one_process, on_two_processes

_SAME = 1e-6


class ProcessChecks(SolverSubject):
    """Several processes compute what one does."""

    def test_two_processes_equal_one(self) -> None:
        """With full draws, two processes and one end at the same points."""
        if self.subject.one_process:
            pytest.skip(self.subject.one_process)
        names = [trial.name for trial in self.trials()]
        # The class itself need not be one that another process could import, unless it has problems of its own.
        own_problems = getattr_static(type(self), "problems") is not getattr_static(SolverSubject, "problems")
        request = Request(
            self.subject.name,
            self.config,
            self.subject if self.own_entry else None,
            self.problems if own_problems else known_problems,
        )
        alone = on_one_process(request)
        try:
            (ranks,) = on_two_processes([request])
        except (AttributeError, TypeError, ValueError) as error:  # what pickle raises
            self.fail(
                "an entry that can be handed to another process",
                f"{type(error).__name__}: {error}",
                "define config and factory, and checks with `problems` of their own, at the top of a module that can "
                "be imported",
            )
        for rank, ends in enumerate([alone, *ranks], start=-1):
            where = "one process" if rank < 0 else f"process {rank} of two"
            self.expect(not ends.error, f"no error on {where}", ends.error, "see the message")
        for name in names:
            for rank, ends in enumerate(ranks):
                distance = float((ends.points[name] - alone.points[name]).abs().max())
                size = 1.0 + float(alone.points[name].abs().max())
                self.expect(
                    distance <= _SAME * size,
                    "two processes to end where one does, up to rounding",
                    f"points that differ by {distance:.3g} on {name}, on process {rank}",
                    "pool estimates over processes, weighted by `rows.sample_share`, before anything nonlinear is made "
                    "of them; or say in `one_process` of the entry why several make no sense",
                )
