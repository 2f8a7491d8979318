"""What a reader must know before trusting a board."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drobench.results.labels import content_key
from drobench.results.record import FAILURES, Record

Runs = Mapping[str, Sequence[Record]]
"""The runs of each solver by its label."""


def seed_note(before: Runs, shared: Sequence[int]) -> str | None:
    """Say which seeds are compared when the solvers were not run with the same ones.

    Args:
        before: All runs.
        shared: The seeds that every solver has.
    """
    left_out = {
        label: sorted({record.seed for record in runs} - set(shared))
        for label, runs in before.items()
        if {record.seed for record in runs} - set(shared)
    }
    if not left_out:
        return None
    details = "; ".join(f"{label}: {_numbers(seeds)}" for label, seeds in left_out.items())
    if not shared:
        return f"The solvers share no seed, so the runs are not paired ({details})."
    return f"Only the seeds that all solvers share are compared ({_numbers(shared)}). Left out: {details}."


def repeated_seed_note(compared: Runs) -> str | None:
    """Say when a seed counts more than once for a solver, as after an update of a problem or dataset."""
    labels = [label for label, runs in compared.items() if len({record.seed for record in runs}) < len(runs)]
    if not labels:
        return None
    return f"Several runs have the same seed and all of them count: {', '.join(labels)}."


def environment_notes(compared: Runs) -> list[str]:
    """Warn when times come from different machines or numbers of threads."""
    notes = []
    machines = _distinct(compared, lambda record: record.environment.hardware)
    if len(machines) > 1:
        notes.append(f"The runs come from {len(machines)} kinds of hardware; do not compare their seconds.")
    threads = _distinct(compared, lambda record: record.environment.threads)
    if len(threads) > 1:
        notes.append(f"The runs used different numbers of threads ({_numbers(threads)}); do not compare their seconds.")
    return notes


def skipped_note(skipped: Sequence[Record]) -> str | None:
    """Name the runs that were not made, and why."""
    if not skipped:
        return None
    reasons = dict.fromkeys(f"{record.solver.name} ({record.reason or 'no reason given'})" for record in skipped)
    return f"Skipped runs: {len(skipped)}, not compared: {'; '.join(reasons)}."


def iterate_notes(compared: Runs, iterate: str, has_targets: bool) -> list[str]:
    """Explain columns that are empty."""
    notes = []
    for label, runs in compared.items():
        # Of a run that failed nobody expects an iterate; the table counts it as failed already.
        complete = [record for record in runs if record.status not in FAILURES]
        without = [record for record in complete if getattr(record.iterates, iterate) is None]
        if without:
            notes.append(f"{label}: {len(without)} of {len(complete)} complete runs have no `{iterate}` iterate.")
    if iterate != "last":
        notes.append(f"The way to the target is recorded for the last iterate only, not for `{iterate}`.")
    elif not has_targets:
        notes.append("No run has a certified optimum above which it started, so there is no target to reach.")
    return notes


def _distinct(compared: Runs, value: Callable[[Record], Any]) -> list[Any]:
    """The different known values; a run that does not know its environment says nothing about it."""
    values = [value(record) for runs in compared.values() for record in runs]
    return [*{content_key(known): known for known in values if known is not None}.values()]


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(str(value) for value in sorted(values))
