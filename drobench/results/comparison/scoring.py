"""One board from its runs: what is compared, in which order, and with what right."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from drobench.errors import SettingError
from drobench.results.comparison import notes
from drobench.results.comparison.board import Board
from drobench.results.comparison.code_note import code_note
from drobench.results.comparison.comparing import comparisons
from drobench.results.comparison.contenders import Contender, Entries, contenders, entries
from drobench.results.comparison.grouping import Across, Group
from drobench.results.comparison.question import Question
from drobench.results.comparison.ranking import places, rank_intervals, shared_ranks
from drobench.results.comparison.readings import CurveReading
from drobench.results.comparison.rows import Comparison, Row
from drobench.results.comparison.summaries import unranked_rows


def score(group: Group, readings: Mapping[str, CurveReading], asked: Question) -> tuple[Board, list[Contender]]:
    """Build a board, and hand over who contended on it.

    Args:
        group: The runs.
        readings: What their curves say, by run id.
        asked: The question.
    """
    found = entries(group, readings, asked)
    judged = contenders(found, readings, asked)
    unranked = unranked_rows(judged, readings, asked, found.askable)
    rows, tested = _ranked(unranked, judged, found, asked)
    baseline = _reference(rows, asked.baseline)
    reference = baseline or rows[0].solver
    rows = _with_comparisons(rows, tested, reference)
    board = Board(
        title=group.title,
        **_task(group, asked.across),
        rows=tuple(rows),
        ranked_by=found.ranked_by,
        notes=_notes(found, rows, readings, asked, baseline),
        comparisons=tuple(tested),
        reference=reference if tested else None,
        cost=asked.cost,
        columns=asked.columns,
    )
    return board, judged


def _task(group: Group, across: Across) -> dict[str, Any]:
    """What was solved, without the settings that differ within the board."""
    first = group.records[0]
    return {
        "problem": {"name": first.problem.name, "config": _kept(first.problem.config, "problem", across)},
        "dataset": {
            "name": first.dataset.name,
            "config": _kept(first.dataset.config, "dataset", across),
            "sha256": group.checksum,
        },
        "model": _kept(first.model, "model", across),
        "budget": first.budget,
    }


def _kept(settings: Mapping[str, Any], part: str, across: Across) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if f"{part}.{name}" not in across.names}


def _notes(
    found: Entries,
    rows: Sequence[Row],
    readings: Mapping[str, CurveReading],
    asked: Question,
    baseline: str | None,
) -> tuple[str, ...]:
    nothing_to_solve = notes.start_note(found.compared, readings)
    remarks = [
        nothing_to_solve,
        notes.worse_note(rows),
        notes.pair_note(found.entered, found.shared, asked.across),
        notes.repeated_seed_note(found.compared, asked.across),
        notes.few_pairs_note(len(rows), len(found.shared)),
        notes.detectable_note([row.comparison for row in rows if row.comparison is not None]),
        notes.optimum_note(found.compared, asked.across),
        notes.curvature_note(found.compared),
        *notes.budget_notes(found.compared, readings),
        notes.reconstruction_note(found.compared),
        code_note(found.compared),
        *notes.environment_notes(found.compared),
        notes.skipped_note(found.skipped),
        *notes.iterate_notes(found.compared, asked.iterate),
        notes.target_note(asked.iterate, found.askable[0] or nothing_to_solve is not None),
        notes.baseline_note(asked.baseline, baseline),
    ]
    return tuple(remark for remark in remarks if remark is not None)


def _ranked(
    rows: Sequence[Row], contenders: Sequence[Contender], found: Entries, asked: Question
) -> tuple[list[Row], list[Comparison]]:
    """The rows in order with their ranks, and the tests these rest on; without common seeds nothing is tested."""
    measure, more = found.measure, found.measure in asked.more_is_better
    standings = [[run.standing for run in contender.paired] for contender in contenders]
    middle = {
        row.solver: (sorted(runs)[len(runs) // 2], _or_worst(row.median(measure), more))
        for row, runs in zip(rows, standings, strict=True)
    }
    if not found.shared:
        return sorted(rows, key=lambda row: (middle[row.solver], row.solver)), []
    taken = places(standings)
    intervals: Sequence[tuple[int, int] | None] = rank_intervals(taken) or [None] * len(rows)
    placed = [
        dataclasses.replace(row, mean_place=float(mean), rank_interval=interval)
        for row, mean, interval in zip(rows, taken.mean(axis=1), intervals, strict=True)
    ]
    placed.sort(key=lambda row: (row.mean_place, middle[row.solver], row.solver))
    ordered = [row.solver for row in placed]
    runs_of = {contender.label: contender.paired for contender in contenders}
    tested = comparisons(ordered, runs_of, measure, asked.cost, more)
    worse = {(pair.worse, pair.better) for pair in tested if pair.significant and pair.wins > pair.losses}
    ranks = shared_ranks(ordered, lambda label, leader: (label, leader) in worse)
    return [dataclasses.replace(row, rank=ranks[row.solver]) for row in placed], tested


def _or_worst(value: float | None, more: bool) -> float:
    """A median, the less the better."""
    if value is None:
        return math.inf
    return -value if more else value


def _reference(rows: Sequence[Row], baseline: str | None) -> str | None:
    """The label that the baseline has on this board; `None` if it was not run here.

    Raises:
        SettingError: If several configurations of it were.
    """
    named = [row.solver for row in rows if baseline in (row.solver, row.name)]
    if baseline in named or len(named) <= 1:
        return baseline if baseline in named else next(iter(named), None)
    raise SettingError(
        f"The baseline must be one solver; {baseline!r} is {len(named)} of them: {', '.join(named)}. "
        "Name one of these, or keep one configuration of each with `--select validation`."
    )


def _with_comparisons(rows: Sequence[Row], tested: Sequence[Comparison], reference: str) -> list[Row]:
    found = {
        comparison.worse if comparison.better == reference else comparison.better: comparison
        for comparison in tested
        if reference in (comparison.better, comparison.worse)
    }
    return [dataclasses.replace(row, comparison=found.get(row.solver)) for row in rows]
