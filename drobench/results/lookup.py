"""Finding a run by the beginning of its id."""

from collections.abc import Sequence
from pathlib import Path

from drobench.errors import DrobenchError
from drobench.results.record import short_id

SHORTEST_PREFIX = 4
_SHOWN = 8


class UnknownRun(DrobenchError):
    """No run, or more than one, answers to the given id."""


def only_match(prefix: str, stored: Sequence[str], root: Path) -> str:
    """The one stored id that begins with the given text.

    Args:
        prefix: What the user typed.
        stored: All full ids.
        root: The folder they are in, for the message.

    Raises:
        UnknownRun: If there is none or more than one; the message lists those that come near.
    """
    wanted = prefix.strip().lower()
    if len(wanted) < SHORTEST_PREFIX:
        raise UnknownRun(
            f"A run id needs at least {SHORTEST_PREFIX} digits; found {prefix!r}. {_advice(wanted, stored, root)}"
        )
    matches = [name for name in stored if name.startswith(wanted)]
    if not matches:
        raise UnknownRun(f"There is no run {prefix!r} in {root}. {_advice(wanted, stored, root)}")
    if len(matches) > 1:
        raise UnknownRun(f"{len(matches)} runs begin with {prefix!r}: {_listed(matches)}. Give more digits.")
    return matches[0]


def _advice(wanted: str, stored: Sequence[str], root: Path) -> str:
    if not stored:
        return f"{root} holds no runs; `results=DIR` or DROBENCH_RESULTS chooses another folder."
    near = stored
    for length in range(1, len(wanted) + 1):
        # As many digits of what was typed as any stored id shares; none shared leaves all of them.
        near = [name for name in near if name.startswith(wanted[:length])] or near
    return f"Near ones: {_listed(near)}."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(short_id(name) for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
