"""Whether a reformulation makes what it says, and carries points there and back."""

import pytest
import torch

from drobench.checks.comparing import NARROW, WIDE, best_over_extra
from drobench.checks.reformulations.subject import ReformulationSubject
from drobench.errors import DrobenchError
from drobench.objective.forms import Composite, Constrained, FiniteSum, MinMax
from drobench.objective.oracles.build import build_oracle
from drobench.reformulation.reformulation import ReformulationConfig

_SAME = 1e-9


class ReformulationFormChecks(ReformulationSubject):
    """Its kind, its points, and what it must leave alone."""

    def test_has_an_example(self) -> None:
        """There is something to try it on."""
        self.examples()

    def test_declares_what_it_is(self) -> None:
        """Its name is that of the entry, `produces` is a class, and it says no to what is no form."""
        step = self.step()
        self.expect(
            step.name == self.subject.name,
            f"a reformulation whose `name` is that of its entry, {self.subject.name!r}",
            f"{step.name!r}",
            "use one name: records name the steps of a run",
        )
        self.expect(
            isinstance(step.produces, type),
            "`produces`, the class of the new form",
            f"{step.produces!r}",
            "set it to the class, such as `Composite`",
        )
        try:
            answer = step.accepts(object())
        except Exception as error:  # whatever a stranger's method raises belongs into the report about it
            self.fail(
                "`accepts` to say no to what is no form",
                f"{type(error).__name__}: {error}",
                "begin with `isinstance(form, ...)`: it is asked about every form there is",
            )
        self.expect(
            answer is False,
            "`accepts` to say no to what is no form",
            f"{answer!r}",
            "begin with `isinstance(form, ...)`: it is asked about every form there is",
        )

    def test_produces_what_it_declares(self) -> None:
        """The new form is of the declared class, as large as its points, and an oracle can be made of it."""
        for name, form, points in self.examples():
            step = self.step()
            new = self.applied(step, form, NARROW)
            self.expect(
                isinstance(new, step.produces),
                f"a {step.produces.__name__}, which it says that it produces",
                f"a {type(new).__name__} of {name}",
                "correct `produces`, or what `apply` returns",
            )
            start = step.lift(points[0])
            self.expect(
                getattr(new, "dimension", None) == len(start),
                f"a form of as many variables as `lift` gives, {len(start)}",
                f"`dimension` {getattr(new, 'dimension', None)} of {name}",
                "correct `dimension` of the new form, or `lift`",
            )
            if isinstance(new, Composite | FiniteSum | Constrained | MinMax):
                build_oracle(new, 0, start)

    def test_lift_and_recover_belong_together(self) -> None:
        """A point that is lifted and recovered is itself, or where a step projects, as feasible as can be."""
        for name, form, points in self.examples():
            step = self.step()
            self.applied(step, form, NARROW)
            for point in points:
                kept = point.clone()
                lifted = step.lift(point)
                back = step.recover(lifted)
                self.expect(
                    torch.equal(point, kept) and back.shape == point.shape and bool(back.isfinite().all()),
                    f"`recover(lift(x))` of {name} to be a finite point of {len(point)} parameters, and x as it was",
                    f"one of shape {tuple(back.shape)}, finite: {bool(back.isfinite().all())}",
                    "correct `lift` or `recover`, and change no argument in place",
                )
                if step.projects or isinstance(form, Constrained):
                    continue
                off = float((back - point).abs().max())
                self.expect(
                    off <= _SAME,
                    f"`recover(lift(x))` of {name} to be x, since nothing is projected",
                    f"a point that is off by {off:.3g}",
                    "correct `lift` or `recover`: one undoes the other; set `projects` if `recover` is a projection",
                )

    def test_forms_are_left_alone(self) -> None:
        """`apply` leaves the form it is given alone, and two applications make the same."""
        for name, form, points in self.examples():
            before, values = dict(vars(form)), [float(form.value(point)) for point in points]
            step = self.step()
            first = self.applied(step, form, WIDE)
            lifted = step.lift(points[0])
            second = self.applied(self.step(), form, WIDE)
            # Its parts may remember what they have computed; they must be the same parts.
            changed = [part for part, old in before.items() if vars(form).get(part) is not old]
            self.expect(
                not changed and values == [float(form.value(point)) for point in points],
                f"the form {name} as it was before `apply`",
                f"other {', '.join(changed) or 'values'}",
                "build the new form from parts of the old, and set nothing on the old",
            )
            if not hasattr(first, "value"):
                continue
            one, other = float(first.value(lifted)), float(second.value(lifted))
            self.expect(
                abs(one - other) <= _SAME * (1.0 + abs(one)),
                f"the same form of {name} from two applications",
                f"values {one:.9g} and {other:.9g} at one point",
                "keep nothing from one application to the next but what `lift` and `recover` need",
            )

    def test_precision_is_that_of_the_form(self) -> None:
        """What is made of a form in single precision is in single precision."""
        single = torch.float32
        for name, form, points in self.examples(single):
            step = self.step()
            try:
                new = self.applied(step, form, WIDE)
                lifted = step.lift(points[0])
                found = {"lift": lifted, "recover": step.recover(lifted)}
                if hasattr(new, "smooth_gradient"):
                    found |= {"value": new.value(lifted), "smooth_gradient": new.smooth_gradient(lifted)}
            except RuntimeError as error:  # what torch raises where precisions meet
                self.fail(
                    f"everything in the precision of {name}, {single}", str(error), "create tensors like the point"
                )
            for what, tensor in found.items():
                self.expect(
                    tensor.dtype == single,
                    f"`{what}` in the precision of {name}, {single}",
                    f"{tensor.dtype}",
                    "create tensors like the point",
                )

    def test_a_smoothing_error_is_kept(self) -> None:
        """Where `width_for` gives a width for an error, the value is off by no more than that."""
        step = self.step()
        if not step.default_widths:
            pytest.skip("nothing is smoothed")
        allowed = 0.05
        for name, form, points in self.unconstrained():
            try:
                width = step.width_for(form, allowed, ReformulationConfig())
            except DrobenchError:
                pytest.skip("it gives no width for an error")
            new = self.applied(step, form, width)
            for point in points:
                if not hasattr(new, "value"):
                    continue
                error = abs(best_over_extra(new, step.lift(point), len(point)) - float(form.value(point)))
                self.expect(
                    error <= allowed * (1.0 + 1e-6),
                    f"the value of {name} to change by at most {allowed} at the width of `width_for`, {width:.3g}",
                    f"{error:.3g}",
                    "correct `width_for`",
                )
