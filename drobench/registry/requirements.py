"""Whether a form has what a solver cannot do without."""

from collections.abc import Iterable
from typing import Any

from drobench.objective.capabilities import provided_by
from drobench.registry.catalogue import NeedsNotMet
from drobench.registry.entries import SolverEntry


def check_requirements(entry: SolverEntry, form: Any, installed: Iterable[SolverEntry] = ()) -> None:
    """Raise `NeedsNotMet` unless the form provides all that the solver requires.

    Args:
        entry: The solver.
        form: What it would work on: the end of its route from the problem.
        installed: Other solvers; those of them that could work on this form are named in the message.
    """
    provided = provided_by(form)
    missing = [capability for capability in entry.requires if capability not in provided]
    if not missing:
        return
    lacks = "; ".join(f"{capability.name.lower()}, that is, {capability.value}" for capability in missing)
    fitting = [other.name for other in installed if _fits(other, form)]
    advice = f"Installed solvers that would do: {', '.join(fitting)}." if fitting else "Choose a solver that does not."
    raise NeedsNotMet(
        f"Solver {entry.name!r} requires what this problem, as a {type(form).__name__}, does not have: {lacks}. "
        f"{advice} Or choose a problem that has it."
    )


def _fits(entry: SolverEntry, form: Any) -> bool:
    return isinstance(form, entry.accepts) and provided_by(form) >= set(entry.requires)
