"""Joining the results of several people or machines.

Runs are named by what determines them, so joining is copying, and the same run from two places is the same experiment:
the one that is there stays, unless it failed and the other did not. Where both finished, their results must agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from drobench.errors import DrobenchError
from drobench.results.fields import DamagedRecord
from drobench.results.record import FAILURES, Record, Status, short_id
from drobench.results.store import ResultStore

# Of what two machines make of the same run: rounding, not another result.
_TOLERANCE = 1e-6


@dataclass
class Merged:
    """What became of the runs of one source."""

    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    """What to tell about runs whose results differ."""
    troubles: list[str] = field(default_factory=list)


def merge(source: ResultStore, target: ResultStore) -> Merged:
    """Add the runs of `source` to `target`; nothing of `source` is changed, nothing finished in `target` replaced.

    A run that cannot be merged is one of the troubles, and the others are merged all the same.
    """
    outcome = Merged()
    target.prepare()
    scan = source.records()
    outcome.troubles += [trouble.message for trouble in scan.troubles]
    for record in scan.records:
        try:
            with target.lock(record.run_id):
                _merge_one(record, source, target, outcome)
        except (DrobenchError, OSError) as error:
            # Somebody else holds it, its files are damaged, or the target has it from a later version.
            outcome.troubles.append(f"Run {short_id(record.run_id)} was not merged: {error}")
    return outcome


def _merge_one(record: Record, source: ResultStore, target: ResultStore, outcome: Merged) -> None:
    here = _stored(target, record.run_id)
    if here is not None and not _is_better(record, here):
        outcome.known.append(record.run_id)
        difference = _difference(record, here)
        if difference is not None:
            outcome.conflicts.append(f"Run {short_id(record.run_id)} ({record.solver.name}): {difference}")
        return
    parts = source.curve(record.run_id), source.solution(record.run_id), source.config(record.run_id)
    target.write(record, *parts)
    (outcome.added if here is None else outcome.replaced).append(record.run_id)


def _stored(store: ResultStore, run_id: str) -> Record | None:
    try:
        return store.read(run_id) if (store.root / run_id).is_dir() else None
    except DamagedRecord:
        return None


def _is_better(new: Record, old: Record) -> bool:
    """Whether a run that is there was not made, or failed, and this one was."""
    failed = (Status.FAILED, Status.SKIPPED)
    return old.status in failed and new.status not in failed


def _difference(new: Record, old: Record) -> str | None:
    """Say how two finished runs of one id differ, if they do."""
    if new.iterates.last is None or old.iterates.last is None:
        return None
    if new.status in FAILURES or old.status in FAILURES:
        return None if new.status == old.status else f"ended as {old.status} here and as {new.status} there"
    here, there = old.iterates.last.objective, new.iterates.last.objective
    if here is None or there is None or abs(here - there) <= _TOLERANCE * max(1.0, abs(here)):
        return None
    return f"the objective is {here!r} here and {there!r} there; the one here was kept"


def summary(outcomes: Sequence[Merged]) -> str:
    """Return the counts in one line."""
    added, replaced, known = (
        sum(len(getattr(outcome, name)) for outcome in outcomes) for name in ("added", "replaced", "known")
    )
    return f"{added} runs added, {replaced} failed ones replaced, {known} there already"
