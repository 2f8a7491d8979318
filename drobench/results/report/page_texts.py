"""The sentences of the page."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC
from typing import Any

from drobench.results.fields import storable
from drobench.results.record import FAILURES, Outcome, Record, Status
from drobench.results.report.content import BoardView, Content
from drobench.results.report.tables import compact

ITERATE_LABELS = {"last": "last", "average": "average", "best_feasible": "best feasible"}
SPLIT_LABELS = {"train": "training data", "validation": "validation data", "test": "test data"}
TERMS = (
    (
        "Ranks",
        "Seed by seed, a run that reached the target beats one that did not, and of two that did the cheaper wins. "
        "Otherwise feasible beats infeasible, and the smaller value of the deciding metric wins, or the larger "
        "one of a metric of which more is better; failed runs are last. "
        "Solvers share a rank (=) unless a paired test says that one is worse than the first of its group.",
    ),
    ("Gap", "Objective minus the certified optimum of the original problem. Missing at points that are infeasible."),
    ("Relative gap", "Gap divided by the gap at the start: 1 at the start, 0 at the optimum."),
    ("Violation", "How far the worst constraint is beyond its allowed slack. Zero or less means that all hold."),
    ("Stationarity", "Squared norm of the gradient mapping, the measure of the non-convex theorems."),
    ("Passes", "Sample rows touched, divided by the number of rows. Oracle calls add the constraint checks."),
    ("Solver seconds", "Time inside the solver; evaluation, logging and saving are not counted."),
    (
        "Iterates",
        "Last: what the method returns. Average: its own average. Best feasible: the feasible point with the lowest "
        "validation error. They are reported apart and never mixed.",
    ),
    ("Intervals", "95% bootstrap intervals of the median over seeds. With few seeds they are wide, or cover less."),
    (
        "Failed runs",
        "They stay in every comparison: a failed run has not reached any target, and from its failure on its curve "
        "counts as infinite.",
    ),
    (
        "Worse than start",
        "The start dominates the last iterate: its objective is lower and its violation not higher, or its violation "
        "lower and its objective not higher. To trade one for the other is not worse. Of runs that reached the target, "
        "and of infeasible ones, such runs come last.",
    ),
    (
        "Start is optimal",
        "The certified optimum is the start, as far as the certificate can tell. There was nothing to solve, and gaps "
        "and targets relative to the start mean nothing.",
    ),
    ("Log axes", "What is zero or below, such as the start of a run, stands at the edge."),
)
MINUS = "\N{MINUS SIGN}"
_ENDS = {
    Status.CONVERGED: "converged",
    Status.BUDGET_SPENT: "used up the budget",
    Status.DIVERGED: "diverged",
    Status.NON_FINITE: "met a number that is not finite",
    Status.FAILED: "failed",
    Status.SKIPPED: "skipped",
}


def title(content: Content) -> str:
    """What was compared, as a headline."""
    solvers = {row.name for board in content.leaderboard.boards for row in board.rows}
    counted = "1 solver" if len(solvers) == 1 else f"{len(solvers)} solvers"
    boards = content.leaderboard.boards
    if len(boards) == 1:
        return f"{counted} on {boards[0].problem['name']}, {boards[0].dataset['name']}"
    problems = {board.problem["name"] for board in boards}
    where = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return f"{counted} on {where}, {len(boards)} boards"


def summary(content: Content) -> str:
    """How many runs, when, with which seeds, and how they ended."""
    records = content.records
    first, last = (record.started.astimezone(UTC).strftime("%Y-%m-%d") for record in (records[0], records[-1]))
    when = f"on {first}" if first == last else f"between {first} and {last}"
    counts = Counter(record.status for record in records)
    ended = ", ".join(f"{counts[status]} {words}" for status, words in _ENDS.items() if counts[status])
    versions = sorted(
        {str(run.environment.versions["drobench"]) for run in records if "drobench" in run.environment.versions}
    )
    worse = _worse(content)
    ended += f" ({worse} of them worse than {'it' if worse == 1 else 'they'} began)" if worse else ""
    by = f", drobench {', '.join(versions)}" if versions else ""
    runs = "1 run" if len(records) == 1 else f"{len(records)} runs"
    return f"{runs} {when} with {_seeds({record.seed for record in records})}: {ended}{by}."


def facts(view: BoardView) -> str:
    """What all runs of a board have in common."""
    board = view.board
    any_run = next(record for runs in view.records.values() for record in runs)
    rows = next((run.dataset.rows for runs in view.records.values() for run in runs if run.dataset.rows), None)
    budget = [f"{value:g} {name.replace('_', ' ')}" for name, value in board.budget.items() if _is_number(value)]
    parts = [f"model {board.model.get('name', 'unknown')}"]
    parts += [f"{rows:,} rows of data"] if rows else []
    parts += ["synthetic twin of the real data"] if any_run.dataset.twin else []
    parts += [f"budget {', '.join(budget)}"] if budget else []
    parts.append(_seeds({seed for row in board.rows for seed in row.seeds}))
    return "; ".join(parts)[0].upper() + "; ".join(parts)[1:] + "."


def reading(content: Content) -> str:
    """How to read a table."""
    tables = content.leaderboard
    return (
        f"Medians over seeds of the {ITERATE_LABELS[tables.iterate]} iterate, below them 95% bootstrap intervals. "
        f"Target: {tables.targets[0].label}. How ranks are found is told at the end."
    )


def curve_note(view: BoardView) -> str:
    """What failures do to the curves; empty without any."""
    failed = sum(row.failed for row in view.board.rows)
    if not failed:
        return ""
    runs = "1 run failed and counts" if failed == 1 else f"{failed} runs failed and count"
    return f"{runs} as infinite from the failure on: bands reach to the top, medians end where half of the runs failed."


def no_trade_off(view: BoardView) -> str:
    """Why there is no error to trade for a violation."""
    scored = any(record.iterates.last for runs in view.records.values() for record in runs)
    if scored:
        return "This problem has no constraints, so there is no violation to trade the error for."
    return "No run of this board has a scored iterate."


def failure_summary(content: Content) -> str:
    """How many runs failed, were skipped, or ended worse than they began."""
    records = content.records
    failed = sum(record.status in FAILURES for record in records)
    skipped = sum(record.status is Status.SKIPPED for record in records)
    return (
        f"{failed} of {len(records)} runs failed and count against their solvers; {skipped} were skipped and do not; "
        f"{_worse(content)} came to their end, but worse than they began."
    )


def _worse(content: Content) -> int:
    """How many runs did not fail and yet ended worse than they began."""
    return sum(
        record.status not in FAILURES and content.ending(record).outcome is Outcome.WORSE_THAN_START
        for record in content.records
    )


def run_result(record: Record) -> str:
    """The most telling number of one run."""
    last = record.iterates.last
    if last is None:
        return ""
    if last.gap is not None:
        return f"gap {compact(last.gap)}"
    return "" if last.objective is None else f"objective {compact(last.objective)}"


def _seeds(found: set[int]) -> str:
    return f"seed{'' if len(found) == 1 else 's'} {_ranges(sorted(found))}"


def _ranges(numbers: Sequence[int]) -> str:
    """The numbers 0, 1, 2, 5 as `0 to 2, 5`."""
    groups: list[list[int]] = []
    for value in numbers:
        if groups and value == groups[-1][-1] + 1:
            groups[-1].append(value)
        else:
            groups.append([value])
    return ", ".join(
        f"{group[0]} to {group[-1]}" if len(group) > 2 else ", ".join(str(value) for value in group) for group in groups
    )


def signed(value: float) -> str:
    """A number with two digits and a real minus sign."""
    return f"{value:.2f}".replace("-", MINUS)


def setting(value: Any) -> str:
    """A setting as it is written on the command line."""
    return value if isinstance(value, str) else json.dumps(storable(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
