"""Which solver did best, on each problem and dataset, with the same budget and the same seeds."""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars

from drobench.errors import DrobenchError, SettingError
from drobench.results import notes
from drobench.results.board import METRICS, Board, Leaderboard, Row, Summary, Table
from drobench.results.labels import content_key, distinguishing_labels
from drobench.results.record import FAILURES, ITERATES, Iterate, Record, Status, short_id
from drobench.results.targets import Progress, progress

__all__ = ["Board", "Leaderboard", "NothingToCompare", "Row", "Summary", "Table", "leaderboard"]

# What decides between solvers that are equally feasible, reliable and fast; the first that any run has.
_LAST_CRITERIA = ("gap", "objective", "test_error")
# Of the trainer, what changes the result; the rest is where and how it was computed.
_DETERMINING_TRAINER_KEYS = ("dtype", "devices", "nodes")


class NothingToCompare(DrobenchError):  # noqa: N818 - reads as what it says
    """There are no runs a leaderboard could be made of."""


def leaderboard(
    records: Iterable[Record],
    curves: Callable[[str], polars.DataFrame],
    *,
    target_gap: float = 1e-4,
    iterate: str = "last",
) -> Leaderboard:
    """Compare solvers on every combination of problem, dataset, model and budget.

    Rows are ordered by the share of feasible runs, then by the share of failed runs, by passes to the target, and at
    last by the median gap (or objective, or test error, where no run has the former).

    Args:
        records: The runs; skipped ones are noted, not compared.
        curves: Gives the curve of a run by its id.
        target_gap: The relative gap to reach.
        iterate: `last`, `average` or `best_feasible`.

    Raises:
        NothingToCompare: If there are no runs.
        SettingError: If `iterate` or `target_gap` is impossible.
    """
    if iterate not in ITERATES:
        raise SettingError(f"`iterate` must be one of {', '.join(ITERATES)}; found {iterate!r}.")
    if not (math.isfinite(target_gap) and target_gap > 0):
        raise SettingError(f"`target_gap` must be a finite number above 0; found {target_gap!r}.")
    records = list(records)
    compared = [record for record in records if record.status is not Status.SKIPPED]
    if not compared:
        raise _nothing(records)
    on_the_way = progress(compared, curves, target_gap)
    groups = [group for group in _grouped_by_board(records) if any(run.status is not Status.SKIPPED for run in group)]
    titles = _titles(groups)
    boards = [_board(title, group, on_the_way, iterate) for title, group in zip(titles, groups, strict=True)]
    return Leaderboard(tuple(sorted(boards, key=lambda board: board.title)), target_gap, iterate)


def _nothing(records: Sequence[Record]) -> NothingToCompare:
    if not records:
        return NothingToCompare(
            "There are no results to compare. `drobench sweep quickstart` makes some in about a minute, `drobench run` "
            "makes one; `results=DIR` or DROBENCH_RESULTS chooses the folder to look in."
        )
    return NothingToCompare(
        f"All {len(records)} runs were skipped, so there is nothing to compare. {notes.skipped_note(records)} "
        "`drobench run` with a dataset that suits the problem makes a result."
    )


def _grouped_by_board(records: Sequence[Record]) -> list[list[Record]]:
    """Runs of the same problem, data, model and budget, in a fixed order."""
    checksums: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if record.dataset.sha256 is not None:
            checksums[_board_key(record)].add(record.dataset.sha256)
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda record: (record.seed, record.started, record.run_id)):
        key = _board_key(record)
        checksum = record.dataset.sha256
        if checksum is None and len(checksums[key]) == 1:
            # A run that failed before it saw the data belongs beside its siblings, or its failure would not show.
            (checksum,) = checksums[key]
        groups[key, checksum or ""].append(record)
    return [groups[key] for key in sorted(groups)]


def _board_key(record: Record) -> str:
    problem, dataset = record.problem, record.dataset
    return content_key([problem.name, problem.config, dataset.name, dataset.config, record.model, record.budget])


def _titles(groups: Sequence[Sequence[Record]]) -> list[str]:
    things = []
    for group in groups:
        first = group[0]
        settings = {
            "problem": first.problem.config,
            "dataset": first.dataset.config | {"sha256": short_id(_checksum(group) or "unknown")},
            "model": first.model,
            "budget": first.budget,
        }
        things.append((f"{first.problem.name} on {first.dataset.name}", settings))
    return distinguishing_labels(things)


def _checksum(group: Sequence[Record]) -> str | None:
    return next((record.dataset.sha256 for record in group if record.dataset.sha256 is not None), None)


def _board(title: str, group: Sequence[Record], on_the_way: Mapping[str, Progress], iterate: str) -> Board:
    skipped = [record for record in group if record.status is Status.SKIPPED]
    solvers = _by_solver([record for record in group if record.status is not Status.SKIPPED])
    shared = sorted(set.intersection(*({record.seed for record in runs} for runs in solvers.values())))
    paired = {
        label: [record for record in runs if not shared or record.seed in shared] for label, runs in solvers.items()
    }
    has_targets = any(record.run_id in on_the_way for runs in paired.values() for record in runs)
    with_targets = has_targets and iterate == "last"
    rows = [_row(label, runs, on_the_way, iterate, with_targets) for label, runs in paired.items()]
    ranked_by = next((metric for metric in _LAST_CRITERIA if any(row.metrics[metric] for row in rows)), None)
    remarks = [
        notes.seed_note(solvers, shared),
        notes.repeated_seed_note(paired),
        *notes.environment_notes(paired),
        notes.skipped_note(skipped),
        *notes.iterate_notes(paired, iterate, has_targets),
    ]
    first = group[0]
    return Board(
        title=title,
        problem={"name": first.problem.name, "config": first.problem.config},
        dataset={"name": first.dataset.name, "config": first.dataset.config, "sha256": _checksum(group)},
        model=first.model,
        budget=first.budget,
        rows=_ranked(rows, ranked_by),
        ranked_by=ranked_by,
        notes=tuple(remark for remark in remarks if remark is not None),
    )


def _by_solver(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The runs of each solver and configuration, by label."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[content_key([record.solver.name, record.solver.config, _circumstances(record)])].append(record)
    variants = [group for _, group in sorted(groups.items())]
    labels = distinguishing_labels(
        [(group[0].solver.name, group[0].solver.config | _circumstances(group[0])) for group in variants]
    )
    return dict(zip(labels, variants, strict=True))


def _circumstances(record: Record) -> dict[str, Any]:
    """What, beside seed and config, makes the results of one solver on one board different."""
    trainer = {key: record.trainer[key] for key in _DETERMINING_TRAINER_KEYS if key in record.trainer}
    return {"solver": {"version": record.solver.version}, "trainer": trainer, "reformulation": record.reformulation}


def _row(
    label: str, runs: Sequence[Record], on_the_way: Mapping[str, Progress], iterate: str, with_targets: bool
) -> Row:
    points = [getattr(record.iterates, iterate) for record in runs]
    values = [
        _values(record, point, on_the_way.get(record.run_id), with_targets)
        for record, point in zip(runs, points, strict=True)
    ]
    return Row(
        rank=0,
        solver=label,
        name=runs[0].solver.name,
        config=runs[0].solver.config,
        seeds=tuple(record.seed for record in runs),
        run_ids=tuple(record.run_id for record in runs),
        failed=sum(record.status in FAILURES for record in runs),
        feasible_share=sum(point is not None and point.feasible is True for point in points) / len(runs),
        metrics={metric: _summary([run[metric] for run in values]) for metric in METRICS},
    )


def _values(
    record: Record, point: Iterate | None, on_the_way: Progress | None, with_targets: bool
) -> dict[str, float | None]:
    """The numbers of one run, by the names in `METRICS`."""
    point = point or Iterate()
    values: dict[str, float | None] = {name: getattr(point, name, None) for name in METRICS}
    values["seconds_total"] = record.seconds.total
    if on_the_way is not None and point.gap is not None:
        values["relative_gap"] = point.gap / on_the_way.start_gap
    if with_targets:
        values["passes_to_target"] = _or_never(on_the_way.passes if on_the_way else None)
        values["seconds_to_target"] = _or_never(on_the_way.seconds if on_the_way else None)
    return values


def _or_never(value: float | None) -> float:
    return math.inf if value is None else value


def _summary(values: Sequence[float | None]) -> Summary | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return Summary.of(known) if known else None


def _ranked(rows: Sequence[Row], ranked_by: str | None) -> tuple[Row, ...]:
    """Best first; equal rows share a rank and stand in alphabetical order."""

    def merit(row: Row) -> tuple[float, ...]:
        passes = row.median("passes_to_target")
        last = row.median(ranked_by) if ranked_by else None
        return -row.feasible_share, row.failed / row.runs, _or_never(passes), _or_never(last)

    merits = sorted(merit(row) for row in rows)
    ranked = [dataclasses.replace(row, rank=merits.index(merit(row)) + 1) for row in rows]
    return tuple(sorted(ranked, key=lambda row: (row.rank, row.solver)))
