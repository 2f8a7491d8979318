"""The reformulation in question, and the forms that it is tried on."""

import functools
from collections.abc import Collection, Iterator
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from drobench.checks.embedded_data import fitting_dataset
from drobench.checks.known_solutions import known_problems
from drobench.checks.small_data import shortened
from drobench.checks.subject import Checks
from drobench.errors import DrobenchError
from drobench.objective.forms import Constrained
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig
from drobench.registry import ReformulationEntry, load_catalogue

_POINTS = 3
_SCALE = 0.3
_MOST_ROWS = 60
# Of the installed problems as many as are tried: they differ little in what a reformulation sees of them.
_MOST_EXAMPLES = 6


class Example(NamedTuple):
    """A form that the reformulation accepts, and some points of it."""

    name: str
    form: Any
    points: list[Tensor]


class ReformulationSubject(Checks):
    """What all checks of reformulations share."""

    kind: ClassVar[str] = "reformulation"
    subject: ReformulationEntry

    def forms(self, dtype: torch.dtype) -> Collection[Any]:
        """Return small forms of the author's that the reformulation accepts, in this precision."""
        given = self.subject.examples
        if given is None:
            return ()
        to_do = "set it to a function of a precision that returns a list of forms"
        return self.computed("the `examples` of its entry", lambda: list(given(dtype)), to_do)

    def step(self) -> Reformulation:
        """Return a new one."""
        try:
            step = self.subject.factory(self.config)
        except DrobenchError as error:
            self.fail_all(
                self.message("a reformulation with the settings of the checks", str(error), "correct the factory")
            )
        if not isinstance(step, Reformulation):
            self.fail_all(
                self.message(
                    "the factory to return a Reformulation",
                    f"a {type(step).__name__}",
                    "derive it from `drobench.reformulation.reformulation.Reformulation`",
                )
            )
        return step

    def applied(self, step: Reformulation, form: Any, width: float) -> Any:
        """Return the new form, smoothed at this width where it is smoothed at all."""
        try:
            return step.apply(form, ReformulationConfig(gamma=width))
        except DrobenchError as error:
            self.fail_all(
                self.message(
                    f"a form that `accepts` takes, {type(form).__name__}, to be rewritten",
                    f"{type(error).__name__}: {error}",
                    "refuse it in `accepts`, or correct `apply`",
                )
            )

    def examples(self, dtype: torch.dtype = torch.float64) -> list[Example]:
        """Return forms to try it on: the author's own, known problems, and those of installed problems."""
        step = self.step()
        found: list[Example] = []
        for name, form in self._candidates(dtype):
            if len(found) < _MOST_EXAMPLES and self._accepted(step, form):
                self._require_value(name, form)
                found.append(Example(name, form, _points(form, dtype)))
        if not found:
            self.fail_all(
                self.message(
                    "a form to try it on",
                    "that it accepts none of the installed problems, and that no example is given",
                    "give `examples` in the entry",
                )
            )
        return found

    def unconstrained(self) -> list[Example]:
        """Return the examples whose value says everything: without constraints beside it."""
        return [example for example in self.examples() if not isinstance(example.form, Constrained)]

    def _candidates(self, dtype: torch.dtype) -> Iterator[tuple[str, Any]]:
        yield from ((f"example {number}", form) for number, form in enumerate(self.forms(dtype), start=1))
        yield from ((problem.name, problem.form) for problem in known_problems(dtype))
        yield from _installed_forms(dtype)

    def _accepted(self, step: Reformulation, form: Any) -> bool:
        answer = step.accepts(form)
        self.expect(
            isinstance(answer, bool),
            "`accepts` to say True or False",
            f"{answer!r} for a {type(form).__name__}",
            "return a bool",
        )
        return answer

    def _require_value(self, name: str, form: Any) -> None:
        lacking = [word for word in ("dimension", "value") if not hasattr(form, word)]
        if lacking:
            self.fail_all(
                self.message(
                    f"a form with `dimension` and `value` ({name})",
                    f"a {type(form).__name__} without {' and '.join(lacking)}",
                    "give the form both: its value is what a reformulation has to keep",
                )
            )


@functools.cache
def _installed_forms(dtype: torch.dtype) -> tuple[tuple[str, Any], ...]:
    """Return the forms of the installed problems, with their defaults, on a few rows of embedded data."""
    catalogue, forms = load_catalogue(), []
    for name, found in catalogue.problems.items():
        data = fitting_dataset(found.entry.needs, catalogue)
        if data is None:
            continue
        try:
            posed = found.entry.factory(
                found.entry.config(), shortened(data, _MOST_ROWS).to("cpu", dtype), ModelConfig()
            )
        except DrobenchError:
            # That it cannot be posed there is for the checks of the problem to say.
            continue
        forms.append((name, posed.form))
    return tuple(forms)


def _points(form: Any, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(_POINTS, form.dimension, generator=generator, dtype=torch.float64)
    return list((_SCALE * noise).to(dtype))
