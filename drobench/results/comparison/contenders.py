"""Who is compared on a board: the runs of each solver, and the seeds that all of them share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drobench.results.comparison import grouping
from drobench.results.comparison.comparing import PairedRun
from drobench.results.comparison.grouping import Across, Group, Pair
from drobench.results.comparison.question import Question
from drobench.results.comparison.readings import CurveReading
from drobench.results.comparison.standings import standing_of
from drobench.results.comparison.tuning import Tuning, selected
from drobench.results.record import Iterate, Record, Status

_FALLBACK_MEASURE = "objective"

Runs = dict[str, list[Record]]
"""The runs of each solver by its label."""


@dataclass(frozen=True)
class Entries:
    """The runs of a board, sorted by who made them.

    Attributes:
        skipped: The runs that were not made.
        entered: All runs of each solver that takes part.
        compared: Of these, the runs with a seed that all solvers share; all of them where none is shared.
        shared: What all solvers were run with, in order.
        tunings: What the choice of the configuration cost, by label; empty unless one was chosen.
        ranked_by: The metric that decides between feasible runs that did not reach the target; `None` if none has any.
        askable: For each target, whether it can be asked of any run.
    """

    skipped: list[Record]
    entered: Runs
    compared: Runs
    shared: list[Pair]
    tunings: dict[str, Tuning]
    ranked_by: str | None
    askable: list[bool]

    @property
    def measure(self) -> str:
        """What to look at where nothing decides."""
        return self.ranked_by or _FALLBACK_MEASURE


@dataclass(frozen=True)
class Contender:
    """One solver with one configuration on one board.

    Attributes:
        label: How the board calls it.
        runs: All runs that are compared.
        paired: One run for each seed that all solvers share, in the order of the seeds.
        costs: For each target what reaching it cost in each of `paired`; `None` where the target cannot be asked.
        tuning: What the choice of the configuration cost.
    """

    label: str
    runs: list[Record]
    paired: list[PairedRun]
    costs: list[list[float] | None]
    tuning: Tuning | None


def entries(group: Group, readings: Mapping[str, CurveReading], asked: Question) -> Entries:
    """Find out who takes part in a board.

    Args:
        group: The runs.
        readings: What their curves say, by run id.
        asked: The question.
    """
    skipped = [record for record in group.records if record.status is Status.SKIPPED]
    made = [record for record in group.records if record.status is not Status.SKIPPED]
    tried = grouping.variants(made, asked.across)
    tunings = selected(tried, readings, asked.iterate, asked.allowed) if asked.select else {}
    entered = {label: runs for label, runs in tried.items() if not tunings or label in tunings}
    shared, compared = _with_shared_seeds(entered, asked.across)
    everyone = [record for runs in compared.values() for record in runs]
    return Entries(
        skipped=skipped,
        entered=entered,
        compared=compared,
        shared=shared,
        tunings=tunings,
        ranked_by=asked.by or _measure([asked.point(record) for record in everyone]),
        askable=[
            asked.iterate == "last" and any(readings[record.run_id].costs[number] is not None for record in everyone)
            for number in range(len(asked.targets))
        ],
    )


def contenders(found: Entries, readings: Mapping[str, CurveReading], asked: Question) -> list[Contender]:
    """Judge the runs of everybody who takes part."""
    return [_contender(label, found, readings, asked) for label in found.compared]


def cost_of(reading: CurveReading, number: int, cost: str) -> float:
    """What reaching a target cost a run; infinite if it did not, or if the target cannot be asked of it."""
    found = reading.costs[number]
    return math.inf if found is None else found[cost]


def _with_shared_seeds(entered: Runs, across: Across) -> tuple[list[Pair], Runs]:
    """The seeds that all solvers share, and the runs with one of them; without any, all runs."""
    pairs = {record.run_id: across.pair(record) for runs in entered.values() for record in runs}
    common = set.intersection(*({pairs[record.run_id] for record in runs} for runs in entered.values()))
    compared = {
        label: [record for record in runs if not common or pairs[record.run_id] in common]
        for label, runs in entered.items()
    }
    return sorted(common, key=str), compared


def _measure(points: Sequence[Iterate | None]) -> str | None:
    """The gap if there is one; else where there are constraints the error, elsewhere the objective."""

    def known(name: str) -> bool:
        return any(point is not None and getattr(point, name) is not None for point in points)

    wanted = ("gap", "train_error", "objective") if known("train_max_violation") else ("gap", "objective")
    return next((name for name in (*wanted, "test_error") if known(name)), None)


def _contender(label: str, found: Entries, readings: Mapping[str, CurveReading], asked: Question) -> Contender:
    runs = found.compared[label]
    # Of several runs with the same seed the last one stands for it; they are in the order in which they started.
    latest = {asked.across.pair(record): record for record in runs}
    chosen = [latest[pair] for pair in found.shared] if found.shared else runs
    costs = [
        [cost_of(readings[record.run_id], number, asked.cost) for record in chosen] if possible else None
        for number, possible in enumerate(found.askable)
    ]
    first = costs[0] or [math.inf] * len(chosen)
    paired = [
        PairedRun(
            record,
            asked.point(record),
            standing_of(
                record,
                asked.point(record),
                spent,
                found.measure,
                asked.allowed,
                asked.outcome(readings[record.run_id].ending),
                more=found.measure in asked.more_is_better,
            ),
        )
        for record, spent in zip(chosen, first, strict=True)
    ]
    return Contender(label, runs, paired, costs, found.tunings.get(label))
