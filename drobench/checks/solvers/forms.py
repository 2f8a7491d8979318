"""Which problems a solver takes."""

import torch

from drobench.checks.solvers.subject import SolverSubject, names
from drobench.checks.trials import refusals
from drobench.objective.forms import Composite, Constrained, FiniteSum, MinMax, NativeForm
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import NoRouteError, find_route

_FORMS = (Composite, Constrained, MinMax, FiniteSum, NativeForm)


class FormChecks(SolverSubject):
    """It accepts what it can work on, refuses the rest, and can be tried."""

    def test_another_form_is_refused_by_name(self) -> None:
        """Accepted forms are ones that oracles exist for, and a problem of another kind is refused naming both."""
        accepted = self.subject.accepts
        strange = [form for form in accepted if not issubclass(form, _FORMS)]
        self.expect(
            not strange,
            f"`accepts` to hold forms for which there is an oracle ({names(_FORMS)}), or subclasses of them",
            names(strange),
            "name in `accepts` the form that `init` and `step` work on",
        )
        try:
            find_route(_Unheard(), accepted, ReformulationConfig())
        except NoRouteError as error:
            text = str(error)
            missing = [name for name in ("_Unheard", *(form.__name__ for form in accepted)) if name not in text]
            self.expect(not missing, "a refusal that names both forms", text, f"mention {', '.join(missing)}")
        else:
            self.fail(
                "a problem of an unknown kind to be refused",
                f"that `accepts` ({names(accepted)}) takes it",
                "accept the forms that the solver can handle, not a base class of all of them",
            )

    def test_has_a_trial(self) -> None:
        """At least one small problem with a known solution is not refused, or all further checks would be empty."""
        refused = refusals(self.subject, self.config, self.problems(torch.float64))
        self.expect(
            not all(refused.values()),
            "at least one of the small problems with a known solution to be taken",
            "that all are refused: " + "; ".join(f"{name}: {reason}" for name, reason in refused.items()),
            f"accept a form that one of them leads to (it accepts {names(self.subject.accepts)}), refuse in `init` no "
            "more than the method needs to, give the checks `settings` with which it can work, or a problem of the "
            "kind that it is for: override `problems`",
        )


class _Unheard:
    """A problem of a kind that no reformulation knows."""
