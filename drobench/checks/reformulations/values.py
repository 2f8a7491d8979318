"""Whether a problem stays itself when it is rewritten, or says that it does not."""

import functools
from typing import Any

import pytest
import torch
from torch import Tensor

from drobench.checks.comparing import (
    CLOSER,
    EXACT,
    NARROW,
    WIDE,
    best_over_extra,
    slopes_in_a_direction,
    smooth_part,
    smoothing_of,
)
from drobench.checks.reformulations.subject import Example, ReformulationSubject
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, FiniteSum, MinMax
from drobench.objective.sampling import Rows

_SHAPES = "look at the shapes: the texts of `LossTerms` and `DualTerms` say what they must be"
_NOWHERE = "none of its forms has a value that could be compared"


class ReformulationValueChecks(ReformulationSubject):
    """Values, gradients, and what comes back."""

    def test_value_is_kept_unless_it_says_otherwise(self) -> None:
        """An equivalent step keeps the value, a smoothed one closes in on it, and only a relaxation gives it up."""
        compared, largest = 0, 0.0
        for example in self.unconstrained():
            for point in example.points:
                errors = [self._error(example, point, width) for width in (WIDE, NARROW)]
                if None in errors:
                    continue
                wide, narrow = (float(error) for error in errors if error is not None)
                compared, largest = compared + 1, max(largest, narrow)
                if not self.step().relaxation:
                    self._expect_kept(example, float(example.form.value(point)), wide, narrow)
        if not compared:
            pytest.skip(_NOWHERE)
        if self.step().relaxation:
            self.expect(
                largest > EXACT,
                "some point at which a relaxation gives something up",
                f"the same values at {compared} points",
                "set `relaxation = False`: it is taken last, and a run says that it solved something else",
            )

    def test_recovered_points_are_no_worse(self) -> None:
        """Any point of the new form becomes a point of the old one that is not worse than it seemed."""
        if self.step().relaxation:
            pytest.skip("it gives something up, and says so")
        compared = 0
        for name, form, points in self.unconstrained():
            step = self.step()
            new = self.applied(step, form, NARROW)
            if not isinstance(new, Composite | FiniteSum):
                continue
            for point in points:
                # Somewhere else in the new form, but where its regularizer is finite.
                lifted = new.regularizer.prox(step.lift(point) + 0.05, 1e-12)
                value, recovered = float(new.value(lifted)), float(form.value(step.recover(lifted)))
                slack = EXACT * (1.0 + abs(value))
                slack += smoothing_of(getattr(form, "samples", 2)) if step.default_widths else 0.0
                compared += 1
                self.expect(
                    recovered <= value + slack,
                    f"a point recovered from {name} to be no worse than it seemed, {value:.6g}",
                    f"{recovered:.6g}",
                    "correct `recover`, or the value of the new form: its minimum is to be that of the old",
                )
        if not compared:
            pytest.skip(_NOWHERE)

    def test_gradients_agree_with_finite_differences(self) -> None:
        """The gradient of the new form is that of its value."""
        compared = 0
        for name, form, points in self.examples():
            step = self.step()
            new = self.applied(step, form, WIDE)
            if not hasattr(new, "smooth_gradient"):
                continue
            for number, point in enumerate(points):
                # Inside the domain of new variables, whose best values may lie at its edge.
                lifted = new.regularizer.prox(step.lift(point) + 0.05, 1e-12)
                gradient = self.computed(
                    f"the gradient of the new form of {name}", functools.partial(new.smooth_gradient, lifted), _SHAPES
                )
                expected, found, agree = slopes_in_a_direction(
                    functools.partial(_smooth, new), lifted, gradient, number
                )
                compared += 1
                self.expect(
                    agree,
                    f"the gradient of the new form of {name} to agree with finite differences, {expected:.6g}",
                    f"{found:.6g}",
                    "correct the slopes of the new form, or its value",
                )
        if not compared:
            pytest.skip("what it makes has no gradient of its own")

    def test_a_saddle_can_be_solved(self) -> None:
        """Of a saddle: projections are feasible, and the operator is the slope of the value, where it has one."""
        step = self.step()
        if not issubclass(step.produces, MinMax):
            pytest.skip("what it makes is no saddle")
        for name, form, points in self.examples():
            step = self.step()
            new = self.applied(step, form, NARROW)
            for point in points:
                joint = new.project(step.lift(point))
                again = new.project(joint)
                self.expect(
                    torch.allclose(joint, again, rtol=1e-9, atol=1e-9) and bool(joint.isfinite().all()),
                    f"a projection of {name} that is finite and projects on itself",
                    "another point the second time",
                    "correct `project`",
                )
                self._compare_operator(name, new, joint, len(point))

    def _compare_operator(self, name: str, new: Any, joint: Tensor, parameters: int) -> None:
        found = new.operator(joint, Rows(slice(None), None, covered=1.0))
        self.expect(
            found.shape == joint.shape and bool(found.isfinite().all()),
            f"a finite operator of {name}, shaped as the point",
            f"shape {tuple(found.shape)}, finite: {bool(found.isfinite().all())}",
            "correct `operator`",
        )
        if not hasattr(new, "value"):
            return
        # By the parameters alone: the adversary's variables may lie at the edge of their set.
        ahead = torch.cat([found[:parameters], torch.zeros_like(found[parameters:])])
        step = torch.zeros_like(joint)
        step[:parameters] = torch.nn.functional.normalize(ahead[:parameters], dim=0) * 1e-5
        difference = float(new.value(joint + step) - new.value(joint - step)) / 2e-5
        self.expect(
            abs(difference - float(ahead.norm())) <= 1e-4 * (1.0 + float(ahead.norm())),
            f"an operator of {name} that is the slope of its value by the parameters, {difference:.6g}",
            f"{float(ahead.norm()):.6g}",
            "correct `operator`, or `value`",
        )

    def _error(self, example: Example, point: Tensor, width: float) -> float | None:
        """Return how far the new form's best value is from the old one's; `None` where it has none."""
        step = self.step()
        new = self.applied(step, example.form, width)
        # The value of a saddle is that of one pair of players, and the value of a constrained form is not all of it.
        if isinstance(new, MinMax | Constrained) or not hasattr(new, "value"):
            return None
        return abs(best_over_extra(new, step.lift(point), len(point)) - float(example.form.value(point)))

    def _expect_kept(self, example: Example, original: float, wide: float, narrow: float) -> None:
        if not self.step().default_widths:
            self.expect(
                narrow <= EXACT * (1.0 + abs(original)),
                f"the value {original:.9g} of {example.name} in the new form, with new variables at their best",
                f"one that differs by {narrow:.3g}",
                "correct the new form; set `default_widths` if it is smoothed, `relaxation` if it gives something up",
            )
            return
        self.expect(
            narrow <= max(CLOSER * wide, 1e-6 * (1.0 + abs(original))),
            f"to close in on the value {original:.6g} of {example.name} as the smoothing narrows",
            f"that it is off by {wide:.3g} at width {WIDE} and by {narrow:.3g} at width {NARROW}",
            "use the width of the options (`options.width`), and correct the new form",
        )


def _smooth(form: Any, point: Tensor) -> Tensor:
    """Return the value without its regularizer, which may be infinite at the point."""
    if isinstance(form, Composite):
        return smooth_part(form, point)
    value: Tensor = form.value(point) - form.regularizer.value(point)
    return value
