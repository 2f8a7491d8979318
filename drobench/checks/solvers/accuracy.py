"""Whether a solver gets where it should, and as fast as it says."""

import math
from collections.abc import Iterator

import pytest

from drobench.checks import rates
from drobench.checks.solvers.subject import SolverSubject
from drobench.checks.trials import Trial, states
from drobench.registry.entries import LINEAR_RATE

_RATE_SEEDS = 5
# A power shows after a while: the first steps are about the start.
_BEGINNING = 0.05


class AccuracyChecks(SolverSubject):
    """The known solution is reached, at the declared rate."""

    def test_reaches_the_certified_optimum(self) -> None:
        """On small problems with a known answer, the relative gap falls to `goal_gap` within `goal_passes`."""
        if self.subject.no_goal:
            pytest.skip(self.subject.no_goal)
        trials = [trial for trial in self.trials() if trial.equivalent]
        if not trials:
            pytest.skip("no small problem with a known answer is equivalent to a form that it accepts")
        for trial in trials:
            passes, gap = self._first_below(trial, self.subject.goal_gap)
            self.expect(
                gap <= self.subject.goal_gap,
                f"a relative gap of {self.subject.goal_gap:g} on {trial.name} within {self.subject.goal_passes:g} "
                "passes, with the settings of the checks",
                f"{gap:.3g} after {passes:.3g} passes (optimum {trial.problem.optimum:.9g}, by "
                f"{trial.problem.certificate})",
                "correct the method; if it needs more, say so in `goal_gap` and `goal_passes` of the entry, and if it "
                "approaches no optimum by design, say why in `no_goal`",
            )
            self.expect(
                gap >= -rates.FLOOR,
                f"no value below the certified optimum {trial.problem.optimum:.9g} of {trial.name}",
                f"a relative gap of {gap:.3g}",
                "report this: either the certificate or the evaluation is wrong",
            )

    def test_measured_rate_is_not_worse_than_the_declared(self) -> None:
        """The slope of log gap against log passes, with its interval over seeds, against `rate` of the entry."""
        declared = self.subject.rate
        if declared is None:
            pytest.skip("the entry declares no rate")
        for trial in [trial for trial in self.trials() if trial.equivalent]:
            curves = [self._curve(trial, seed, declared == LINEAR_RATE) for seed in range(_RATE_SEEDS)]
            if declared == LINEAR_RATE:
                measured, least = rates.straightness(curves), 0.0
                shown = "how much straighter log gap is against passes than against log passes"
            else:
                assert not isinstance(declared, str)
                measured, least = rates.power(curves), declared
                shown = "the exponent a of gap ~ passes^-a, which is that of the calls"
            self.expect(
                measured is None or measured.high >= least,
                f"the declared rate {declared!r} on {trial.name}: {shown} not below {least:g}",
                str(measured),
                "correct the method, or declare in `rate` of the entry what it achieves",
            )

    def _gaps(self, trial: Trial, seed: int) -> Iterator[tuple[float, float]]:
        """Yield passes and relative gap about once a pass, until the budget is spent."""
        solver, oracle = self.build(), trial.oracle(seed)
        budget, due = self.subject.goal_passes, 0.0
        # Each step asks for one row at least: without this bound, one that asks for nothing would never end.
        most = math.ceil(budget * max(oracle.samples, oracle.constraints, 1))
        for step, state in enumerate(states(solver, oracle, trial.start, most)):
            done = oracle.passes >= budget or step == most
            if oracle.passes >= due or done:
                due = oracle.passes + 1.0
                yield oracle.passes, trial.problem.gap(trial.route.recover(solver.solution(state)))
            if done:
                return

    def _first_below(self, trial: Trial, goal: float) -> tuple[float, float]:
        """Return passes and relative gap where the gap is first as small as the goal, or at the end of the budget."""
        found = (0.0, math.inf)
        for found in self._gaps(trial, 0):
            if found[1] <= goal:
                break
        return found

    def _curve(self, trial: Trial, seed: int, whole: bool) -> list[tuple[float, float]]:
        """Return passes and relative gaps: from the first pass on, or after the first twentieth of the budget."""
        found = []
        for passes, gap in self._gaps(trial, seed):
            found.append((passes, gap))
            if gap <= rates.FLOOR:
                break
        found = [point for point in found if point[0] > 0]
        first = 0.0 if whole else _BEGINNING * found[-1][0]
        return [point for point in found if point[0] >= first]
