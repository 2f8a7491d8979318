"""Two computations of one run, compared number by number along the whole way."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import polars

from drobench.app.claims import iterate_values
from drobench.app.mismatches import Mismatch, compared
from drobench.errors import DrobenchError
from drobench.results.record import FAILURES, ITERATES, Record, Status

# A repeated run adds up the rounding errors of all its steps.
TOLERANCE = 1e-6
# Time is another one each time.
_NOT_COMPARED = ("solver_seconds",)


def why_not_repeatable(record: Record, values: Mapping[str, Any]) -> str | None:
    """Return why another computation of a run need not be the same; nothing where it must be.

    Args:
        record: The run.
        values: Its configuration as it was stored.
    """
    if record.status in (Status.FAILED, Status.SKIPPED):
        return f"it {record.status}"
    if record.budget.get("seconds") is not None:
        return "its budget is in seconds, so that no two runs are the same"
    if values["evaluation"].get("every_seconds") is not None:
        return "it was evaluated by the clock, so that no two runs are the same"
    return None


def refuse_more_than_there_is(values: Mapping[str, Any]) -> None:
    """Raise if a stored run wants more processes or threads than this machine has cores: it was others who asked.

    Raises:
        DrobenchError: It does.
    """
    trainer, cores = values["trainer"], os.cpu_count() or 1
    wanted = trainer.get("devices", 1) * trainer.get("nodes", 1) * trainer.get("threads", 1)
    if wanted > max(cores, 2):
        raise DrobenchError(f"it asks for {wanted} processes or threads, and this machine has {cores} cores")


def differences(old: Record, old_curve: polars.DataFrame, new: Record, new_curve: polars.DataFrame) -> list[Mismatch]:
    """Return where a repeated run is not what is stored: data, status, all iterates, all counts, the whole curve."""
    if new.status in FAILURES and new.status is not old.status:
        return [Mismatch("status", old.status, f"{new.status} ({new.reason})")]
    return [
        *compared("dataset.sha256", old.dataset.sha256, new.dataset.sha256),
        *compared("status", old.status, new.status),
        *_iterates(old, new),
        *_counts(old, new),
        *_curve(old_curve, new_curve),
    ]


def _iterates(old: Record, new: Record) -> Iterator[Mismatch]:
    for which in ITERATES:
        before, after = getattr(old.iterates, which), getattr(new.iterates, which)
        if before is None or after is None:
            yield from compared(which, before is not None, after is not None)
            continue
        now = iterate_values(after)
        for name, value in iterate_values(before).items():
            yield from compared(f"{which}.{name}", value, now.get(name), TOLERANCE)


def _counts(old: Record, new: Record) -> Iterator[Mismatch]:
    for part in ("oracle", "communication"):
        before, after = vars(getattr(old, part)), vars(getattr(new, part))
        for name in before:
            if name != "others" and before[name] is not None:
                yield from compared(f"{part}.{name}", before[name], after[name], TOLERANCE)


def _curve(old: polars.DataFrame, new: polars.DataFrame) -> Iterator[Mismatch]:
    """Compare row by row; of each column the first difference says enough."""
    if old.height != new.height:
        yield Mismatch("curve: evaluations", old.height, new.height)
        return
    for name in old.columns:
        if name in _NOT_COMPARED:
            continue
        if name not in new.columns:
            yield Mismatch(f"curve: {name}", "a column", None)
            continue
        for step, before, after in zip(old["step"], old[name], new[name], strict=True):
            found = list(compared(f"curve: {name} at step {step}", before, after, TOLERANCE))
            if found:
                yield found[0]
                break
