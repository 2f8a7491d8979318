"""Which solver did best on each problem and dataset, by how much, and whether the difference is real."""

import math
from collections.abc import Iterable, Sequence

from drobench.errors import SettingError
from drobench.results.comparison import grouping, notes
from drobench.results.comparison.board import QUALITIES, Board, Comparison, Leaderboard, Row, Summary, Table
from drobench.results.comparison.filters import NothingToCompare
from drobench.results.comparison.grouping import Across
from drobench.results.comparison.labels import distinguishing_labels
from drobench.results.comparison.profiles import Instance, profiles
from drobench.results.comparison.scoring import Contender, Question, score
from drobench.results.comparison.targets import COSTS, DEFAULT_TARGETS, Target, progress
from drobench.results.comparison.tuning import SELECTIONS
from drobench.results.curves import Curves, ManyCurves
from drobench.results.record import ITERATES, Record, Status

__all__ = ["Board", "Comparison", "Leaderboard", "NothingToCompare", "Row", "Summary", "Table", "Target", "leaderboard"]

MEASURES = tuple(
    name for name in QUALITIES if name not in ("relative_gap", "train_max_violation", "test_max_violation")
)
"""What may decide between feasible runs that did not reach the target."""


def leaderboard(
    records: Iterable[Record],
    curves: Curves | ManyCurves,
    *,
    target_gap: float | None = None,
    iterate: str = "last",
    targets: Sequence[Target] | None = None,
    cost: str = "passes",
    by: str | None = None,
    across: Sequence[str] = (),
    baseline: str | None = None,
    select: str | None = None,
) -> Leaderboard:
    """Compare solvers on every combination of problem, dataset, model and budget, and across all of them.

    Runs are compared seed by seed in the order that `outcomes` explains; `ranking` explains how ranks follow.

    Args:
        records: The runs; skipped ones are noted, not compared.
        curves: Gives the curve of a run by its id; `StoredCurves` reads thousands of them at once.
        target_gap: Short for one target, this relative gap.
        iterate: `last`, `average` or `best_feasible`.
        targets: What counts as solved; the first decides the ranks. The default is a relative gap of 1e-4, beside 1e-2
            and 1e-6.
        cost: What reaching a target is counted in: `passes`, `oracle_calls`, `seconds` or `bytes`.
        by: What decides between feasible runs that did not reach the target. The default is the gap; without a
            certified optimum the training error where there are constraints, else the objective.
        across: Settings that shall not split a board, such as `dataset.seed` and `problem.surrogate`.
        baseline: Name or label of a solver to compare all others with; the default is the first of each board.
        select: `validation` keeps one configuration per solver, chosen on validation data.

    Raises:
        NothingToCompare: If there are no runs.
        SettingError: If a setting is impossible.
    """
    asked = _question(target_gap, targets, iterate, cost, by, across, baseline, select)
    records = list(records)
    compared = [record for record in records if record.status is not Status.SKIPPED]
    if not compared:
        raise _nothing(records)
    way = progress(compared, curves, asked.targets)
    groups = [
        group
        for group in grouping.boards(records, asked.across)
        if any(record.status is not Status.SKIPPED for record in group.records)
    ]
    found = [score(group, way, asked) for group in groups]
    _check_baseline(baseline, [board for board, _ in found])
    return Leaderboard(
        boards=tuple(sorted((board for board, _ in found), key=lambda board: board.title)),
        iterate=iterate,
        targets=asked.targets,
        cost=cost,
        profiles=profiles(_instances(found, asked), cost, baseline),
        notes=_hints(grouping.comparable_across(groups), across),
        baseline=baseline,
        selection=select,
    )


def _question(
    target_gap: float | None,
    targets: Sequence[Target] | None,
    iterate: str,
    cost: str,
    by: str | None,
    across: Sequence[str],
    baseline: str | None,
    select: str | None,
) -> Question:
    for name, value, choices in (
        ("iterate", iterate, ITERATES),
        ("cost", cost, tuple(COSTS)),
        ("by", by, (None, *MEASURES)),
        ("select", select, (None, *SELECTIONS)),
    ):
        if value not in choices:
            known = ", ".join(choice for choice in choices if choice is not None)
            raise SettingError(f"`{name}` must be one of {known}; found {value!r}.")
    if target_gap is not None:
        if not (math.isfinite(target_gap) and target_gap > 0):
            raise SettingError(f"`target_gap` must be a finite number above 0; found {target_gap!r}.")
        targets = [Target.of(gap=target_gap), *(targets or ())]
    return Question(tuple(targets or DEFAULT_TARGETS), iterate, cost, by, Across.of(across), baseline, select)


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
