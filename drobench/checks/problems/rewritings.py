"""Whether a problem stays itself when it is written in another form."""

import math
from typing import Any

import pytest
from torch import Tensor

from drobench.checks.comparing import CLOSER, EXACT, NARROW, WIDE, best_over_extra, smoothing_of
from drobench.checks.problems.subject import ProblemSubject
from drobench.objective.forms import Constrained
from drobench.reformulation.constraints import SmoothedConstraints
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig


class RewritingChecks(ProblemSubject):
    """Values are kept, and solutions come back."""

    def test_reformulations_keep_the_value(self) -> None:
        """An equivalent rewriting has the same value; a smoothed one closes in on it as the smoothing narrows."""
        problem = self.problem()
        steps = self.rewritings(problem)
        if not steps:
            pytest.skip("no equivalent rewriting as a composite is known")
        for step in steps:
            for point in self.points(problem):
                if isinstance(problem.form, Constrained):
                    self._compare_penalty(step, problem.form, point)
                else:
                    self._compare_values(step, problem.form, point)

    def test_recover_returns_points_of_the_problem(self) -> None:
        """What a solver of another form returns becomes a point of this problem, and not a worse one."""
        problem = self.problem()
        steps = self.rewritings(problem)
        if not steps:
            pytest.skip("no equivalent rewriting as a composite is known")
        for step in steps:
            form = step.apply(problem.form, ReformulationConfig(gamma=NARROW))
            for point in self.points(problem):
                back = step.recover(step.lift(point))
                self.expect(
                    back.shape == point.shape and bool(back.isfinite().all()),
                    f"`recover` of {step.name} to give a finite point of {len(point)} parameters",
                    f"one of shape {tuple(back.shape)}, finite: {bool(back.isfinite().all())}",
                    "correct the form's dimension, or its reformulation",
                )
                if isinstance(problem.form, Constrained):
                    continue
                # Somewhere else in the new form, but where its regularizer is finite.
                lifted = form.regularizer.prox(step.lift(point) + 0.05, 1e-12)
                value, recovered = float(form.value(lifted)), float(problem.form.value(step.recover(lifted)))
                self.expect(
                    recovered <= value + smoothing_of(problem.form.samples) + EXACT,
                    f"the recovered point to be no worse than the solution of {step.name}, {value:.6g}",
                    f"{recovered:.6g}",
                    "correct `value` of the form, or its reformulation",
                )

    def _compare_values(self, step: Reformulation, form: Any, point: Tensor) -> None:
        original = float(form.value(point))
        if not step.default_widths:
            error = abs(_best(step, form, point, NARROW) - original)
            self.expect(
                error <= EXACT * (1.0 + abs(original)),
                f"the value {original:.9g} of the problem in its equivalent form {step.name}",
                f"one that differs by {error:.3g}",
                "correct `value` of the form, or the reformulation",
            )
            return
        wide, narrow = (abs(_best(step, form, point, width) - original) for width in (WIDE, NARROW))
        self.expect(
            narrow <= max(CLOSER * wide, 1e-6 * (1.0 + abs(original))),
            f"{step.name} to close in on the value {original:.6g} of the problem as its smoothing narrows",
            f"that it is off by {wide:.3g} at width {WIDE} and by {narrow:.3g} at width {NARROW}",
            "correct `value` of the form, or the reformulation",
        )

    def _compare_penalty(self, step: Reformulation, form: Constrained, point: Tensor) -> None:
        new = step.apply(form, ReformulationConfig(gamma=NARROW))
        if not isinstance(new, SmoothedConstraints):
            # A step of a stranger, who may penalise in another way; `ReformulationChecks` is about that.
            return
        violation = float(form.constraints.surrogates(point[None], slice(None))[0].max())
        exact = float(form.objective.value(point)) + max(0.0, new.alpha * violation)
        # The drawn constraints, the cheap ones, and the one that is always zero.
        lowest = exact - new.gamma * math.log(form.constraints.count + form.constraints.cheap_count + 1)
        found = float(new.value(point))
        slack = EXACT * (1.0 + abs(exact))
        self.expect(
            lowest - slack <= found <= exact + slack,
            f"the smoothed penalty between {lowest:.6g} and the exact one, {exact:.6g}",
            f"{found:.6g}",
            "correct `surrogates` of the constraints, or their number",
        )


def _best(step: Reformulation, form: Any, point: Tensor, width: float) -> float:
    """Return the new form's value at a point of the old, with whatever variables are new at their best."""
    new = step.apply(form, ReformulationConfig(gamma=width))
    return best_over_extra(new, step.lift(point), len(point))
