"""What a reader must know before trusting a board."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drobench.results.comparison.grouping import Across, Pair
from drobench.results.comparison.labels import content_key
from drobench.results.comparison.paired import ALPHA, least_p, pairs_needed
from drobench.results.comparison.readings import CurveReading
from drobench.results.comparison.rows import Comparison, Row
from drobench.results.comparison.statistics import CONFIDENCE, most_coverage
from drobench.results.record import FAILURES, Outcome, Record, Status

Runs = Mapping[str, Sequence[Record]]
"""The runs of each solver by its label."""

_SHOWN = 4
# One step may be long: what a run spends beyond its budget counts from a tenth of it on.
_MARGIN = 1.1


def pair_note(before: Runs, shared: Sequence[Pair], across: Across) -> str | None:
    """Say what is compared when the solvers were not run with the same seeds.

    Args:
        before: All runs.
        shared: What every solver was run with.
        across: What the runs are paired by.
    """
    kept = set(shared)
    left_out = {
        label: sorted({across.pair(record) for record in runs} - kept, key=str)
        for label, runs in before.items()
        if {across.pair(record) for record in runs} - kept
    }
    if not left_out:
        return None
    details = "; ".join(f"{label}: {_pairs(pairs)}" for label, pairs in left_out.items())
    if not shared:
        return f"The solvers share no seed, so the runs are not paired and nothing is tested ({details})."
    return f"Only the seeds that all solvers share are compared ({_pairs(shared)}). Left out: {details}."


def repeated_seed_note(compared: Runs, across: Across) -> str | None:
    """Say when a seed counts more than once for a solver, as after an update of a problem or dataset."""
    labels = [label for label, runs in compared.items() if len({across.pair(record) for record in runs}) < len(runs)]
    if not labels:
        return None
    return (
        f"Several runs have the same seed; all of them count in the medians, the last of them in the tests: "
        f"{', '.join(labels)}."
    )


def few_pairs_note(solvers: int, pairs: int) -> str | None:
    """Say when so few seeds cannot show any difference, and how many could."""
    tests = solvers * (solvers - 1) // 2
    if solvers < 2 or pairs == 0 or tests * least_p(pairs) <= ALPHA:
        return None
    seeds = "1 seed" if pairs == 1 else f"{pairs} seeds"
    coverage = f" An interval of a median covers at most {most_coverage(pairs):.0%}." if pairs > 1 else ""
    if most_coverage(pairs) >= CONFIDENCE:
        coverage = ""
    return (
        f"With {seeds} no difference can be significant (least p: {least_p(pairs):.2g}"
        f"{f', adjusted {min(1.0, tests * least_p(pairs)):.2g}' if tests > 1 else ''}), so all ranks are shared; "
        f"{solvers} solvers need {pairs_needed(tests)} seeds.{coverage}"
    )


def detectable_note(comparisons: Sequence[Comparison]) -> str | None:
    """Say what difference from the reference would have been found."""
    known = [
        found
        for found in comparisons
        # Without any spread there is nothing to learn from it.
        if found.detectable is not None and (1.0 if found.is_ratio else 0.0) < found.detectable < math.inf
    ]
    if not known:
        return None
    kinds = []
    for quantity in dict.fromkeys(found.quantity for found in known):
        largest = max(found.detectable or 0.0 for found in known if found.quantity == quantity)
        words = quantity.replace("_", " ")
        is_ratio = any(found.is_ratio for found in known if found.quantity == quantity)
        kinds.append(f"{largest:.3g} times the {words}" if is_ratio else f"{largest:.2g} in {words}")
    return f"{known[0].pairs} pairs with this spread would show a difference of {', or of '.join(kinds)} 8 times in 10."


def curvature_note(compared: Runs) -> str | None:
    """Say whose calls were dearer than those of others, because second derivatives were a part of them."""
    said = []
    for label, runs in compared.items():
        rows, products = (
            sum(counted) for counted in zip(*(_second_derivatives(record) for record in runs), strict=True)
        )
        kinds = [f"{rows / len(runs):.3g} rows in a matrix"] * (rows > 0)
        kinds += [f"{products / len(runs):.3g} in products with vectors"] * (products > 0)
        said += [f"{label} {' and '.join(kinds)}"] if kinds else []
    if not said:
        return None
    return f"Second derivatives make a call take more time: look at seconds too. A run has: {'; '.join(said)}."


def _second_derivatives(record: Record) -> tuple[int, int]:
    return record.oracle.hessian_rows or 0, record.oracle.hessian_products or 0


def budget_notes(compared: Runs, readings: Mapping[str, CurveReading]) -> list[str]:
    """Name solvers whose runs spent more than the budget, or stopped before it without having converged."""
    notes = []
    for label, runs in compared.items():
        spent = [_spent(record, readings[record.run_id]) for record in runs]
        above = [share for share in spent if share is not None and share > _MARGIN]
        if above:
            notes.append(f"{label}: {len(above)} of {len(runs)} runs spent up to {max(above):.2g} times the budget.")
        early = [
            share
            for record, share in zip(runs, spent, strict=True)
            if share is not None and record.status is Status.BUDGET_SPENT and share < 1 / _MARGIN
        ]
        if early:
            notes.append(
                f"{label}: {len(early)} of {len(runs)} runs stopped at {min(early):.0%} of the budget or later."
            )
    return notes


def start_note(compared: Runs, readings: Mapping[str, CurveReading]) -> str | None:
    """Say when there was nothing to solve."""
    endings = [readings[record.run_id].ending.outcome for runs in compared.values() for record in runs]
    optimal = sum(outcome is Outcome.START_IS_OPTIMAL for outcome in endings)
    if not optimal:
        return None
    where = "here" if optimal == len(endings) else f"in {optimal} of {len(endings)} runs"
    return (
        f"Nothing to solve {where}: the certified optimum is the start; gaps and targets relative to it mean nothing. "
        "A weaker adversary or regularizer may leave something to learn."
    )


def worse_note(rows: Sequence[Row]) -> str | None:
    """Name the solvers whose runs ended worse than they began."""
    found = [f"{row.solver} {row.worse_than_start} of {row.runs} runs" for row in rows if row.worse_than_start]
    return f"Ended worse than they began: {', '.join(found)}." if found else None


def reconstruction_note(compared: Runs) -> str | None:
    """Name the solvers that were rebuilt because the original text was not at hand."""
    labels = [label for label, runs in compared.items() if any(run.solver.others.get("reconstructed") for run in runs)]
    return f"Reconstructed, since the original text was not at hand: {', '.join(labels)}." if labels else None


def environment_notes(compared: Runs) -> list[str]:
    """Warn when times come from different machines or numbers of threads."""
    notes = []
    machines = _distinct(compared, lambda record: record.environment.hardware)
    if len(machines) > 1:
        notes.append(f"The runs come from {len(machines)} kinds of hardware; do not compare their seconds.")
    threads = _distinct(compared, lambda record: record.environment.threads)
    if len(threads) > 1:
        used = ", ".join(str(number) for number in sorted(threads))
        notes.append(f"The runs used different numbers of threads ({used}); do not compare their seconds.")
    return notes


def skipped_note(skipped: Sequence[Record]) -> str | None:
    """Name the runs that were not made, and why."""
    if not skipped:
        return None
    reasons = dict.fromkeys(f"{record.solver.name} ({record.reason or 'no reason given'})" for record in skipped)
    return f"Skipped runs: {len(skipped)}, not compared: {'; '.join(reasons)}."


def iterate_notes(compared: Runs, iterate: str) -> list[str]:
    """Explain columns that are empty."""
    notes = []
    for label, runs in compared.items():
        # Of a run that failed nobody expects an iterate; the table counts it as failed already.
        complete = [record for record in runs if record.status not in FAILURES]
        without = [record for record in complete if getattr(record.iterates, iterate) is None]
        if without:
            notes.append(f"{label}: {len(without)} of {len(complete)} complete runs have no `{iterate}` iterate.")
    return notes


def target_note(iterate: str, has_targets: bool) -> str | None:
    """Say why there are no costs."""
    if iterate != "last":
        return f"The way to the target is recorded for the last iterate only, not for `{iterate}`."
    if not has_targets:
        return (
            "No run has what the target asks about (a gap needs a certified optimum), so there is no target to reach."
        )
    return None


def optimum_note(compared: Runs, across: Across) -> str | None:
    """Warn when runs that are paired solved different problems, which `across` may have joined."""
    optima: dict[Pair, list[float]] = {}
    for runs in compared.values():
        for record in runs:
            if record.optimum is not None:
                optima.setdefault(across.pair(record), []).append(record.optimum.value)
    for values in optima.values():
        if max(values) - min(values) > 1e-5 * max(1.0, abs(max(values))):
            return "Runs that are compared have different optima, so they did not solve the same problem."
    return None


def baseline_note(baseline: str | None, found: str | None) -> str | None:
    """Say when the baseline is missing here."""
    if baseline is None or found is not None:
        return None
    return f"The baseline {baseline} was not run here; the others are compared with the first."


def _spent(record: Record, reading: CurveReading) -> float | None:
    """The largest share of any limit that a run has used up."""
    limits = {name: limit for name, limit in record.budget.items() if isinstance(limit, int | float) and limit > 0}
    shares = [reading.used[name] / limit for name, limit in limits.items() if name in reading.used]
    return max(shares, default=None)


def _distinct(compared: Runs, value: Callable[[Record], Any]) -> list[Any]:
    """The different known values; a run that does not know its environment says nothing about it."""
    values = [value(record) for runs in compared.values() for record in runs]
    return [*{content_key(known): known for known in values if known is not None}.values()]


def _pairs(pairs: Sequence[Pair]) -> str:
    """Seeds, or the seeds of data and run; checksums tell a reader nothing."""
    texts = ["/".join(str(part) for part in pair if not isinstance(part, str) and part is not None) for pair in pairs]
    shown = texts if len(texts) <= 2 * _SHOWN else [*texts[:_SHOWN], "...", *texts[-_SHOWN:]]
    return ", ".join(shown)
