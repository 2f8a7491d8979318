"""Which solver did best on each problem and dataset, by how much, and whether the difference is real."""

from collections.abc import Iterable, Sequence

from drobench.errors import SettingError
from drobench.results.comparison import grouping, notes
from drobench.results.comparison.board import Board, Leaderboard
from drobench.results.comparison.contenders import Contender
from drobench.results.comparison.filters import NothingToCompare
from drobench.results.comparison.grouping import Group
from drobench.results.comparison.labels import distinguishing_labels
from drobench.results.comparison.profiles import Instance, profiles
from drobench.results.comparison.question import DEFAULT_QUESTION, Question
from drobench.results.comparison.readings import read_curves
from drobench.results.comparison.scoring import score
from drobench.results.curves import Curves, ManyCurves
from drobench.results.record import Record, Status

__all__ = ["Leaderboard", "NothingToCompare", "leaderboard"]


def leaderboard(
    records: Iterable[Record], curves: Curves | ManyCurves, question: Question = DEFAULT_QUESTION
) -> Leaderboard:
    """Compare solvers on every combination of problem, dataset, model and budget, and across all of them.

    Runs are compared seed by seed in the order that `standings` explains; `ranking` explains how ranks follow.

    Args:
        records: The runs; skipped ones are noted, not compared.
        curves: Gives the curve of a run by its id; `StoredCurves` reads thousands of them at once.
        question: What counts as solved, what it is counted in, and whatever else can be asked.

    Raises:
        NothingToCompare: If there are no runs.
        SettingError: If the baseline is not among the solvers, or is several of them.
    """
    records = list(records)
    compared = [record for record in records if record.status is not Status.SKIPPED]
    if not compared:
        raise _nothing(records)
    question = question.among(compared)
    readings = read_curves(compared, curves, question.targets)
    groups = _groups_with_runs(records, question)
    found = [score(group, readings, question) for group in groups]
    boards = sorted((board for board, _ in found), key=lambda board: board.title)
    _check_baseline(question.baseline, boards)
    return Leaderboard(
        boards=tuple(boards),
        iterate=question.iterate,
        targets=question.targets,
        cost=question.cost,
        profiles=profiles(_instances(found, question), question.cost, question.baseline),
        notes=_hints(grouping.comparable_across(groups), question.across.names),
        baseline=question.baseline,
        selection=question.select,
        endings={run_id: reading.ending for run_id, reading in readings.items()},
        further=question.further,
        more_is_better=question.more_is_better,
    )


def _groups_with_runs(records: Sequence[Record], asked: Question) -> list[Group]:
    """The runs of each board, without boards on which every run was skipped."""
    return [
        group
        for group in grouping.boards(records, asked.across)
        if any(record.status is not Status.SKIPPED for record in group.records)
    ]


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


def _check_baseline(baseline: str | None, boards: Sequence[Board]) -> None:
    if baseline is None or any(baseline in (row.solver, row.name) for board in boards for row in board.rows):
        return
    there = sorted({row.solver for board in boards for row in board.rows})
    raise SettingError(f"The baseline must be one of the solvers compared: {', '.join(there)}; found {baseline!r}.")


def _instances(found: Sequence[tuple[Board, Sequence[Contender]]], asked: Question) -> list[Instance]:
    """Every target on every board, with solvers under names that mean the same on all boards.

    Where each board has one configuration of a solver, the solver is what is compared, however it was set; where one
    has several, they are compared one by one.
    """
    paired = [(board, contenders) for board, contenders in found if board.rows[0].mean_place is not None]
    names = _common_names(paired, asked)
    return [
        Instance(
            board.title,
            target.label,
            {
                names[contender.runs[0].run_id]: costs
                for contender in contenders
                if (costs := contender.costs[number]) is not None
            },
        )
        for board, contenders in paired
        for number, target in enumerate(asked.targets)
        if any(contender.costs[number] is not None for contender in contenders)
    ]


def _common_names(paired: Sequence[tuple[Board, Sequence[Contender]]], asked: Question) -> dict[str, str]:
    """The name of each contender across boards, by the id of its first run."""
    firsts = [contender.runs[0] for _, contenders in paired for contender in contenders]
    if all(len({row.name for row in board.rows}) == len(board.rows) for board, _ in paired):
        return {record.run_id: record.solver.name for record in firsts}
    keys = {grouping.variant_key(record, asked.across): record for record in firsts}
    labels = distinguishing_labels(
        [(record.solver.name, grouping.variant(record, asked.across)) for record in keys.values()]
    )
    by_key = dict(zip(keys, labels, strict=True))
    return {record.run_id: by_key[grouping.variant_key(record, asked.across)] for record in firsts}


def _hints(names: Sequence[str], across: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    wanted = ",".join(dict.fromkeys([*across, *names]))
    return (
        f"Some boards differ only in {', '.join(names)}. `--across {wanted}` puts their runs on one board, "
        "paired by every seed.",
    )
