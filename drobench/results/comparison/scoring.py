"""One board from its runs: what is compared, in which order, and with what right."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drobench.errors import SettingError
from drobench.results.comparison import grouping, notes
from drobench.results.comparison.board import METRICS, QUALITIES, Board, Comparison, Reached, Row, Summary
from drobench.results.comparison.comparing import PairedRun, comparisons
from drobench.results.comparison.grouping import Across, Group, Pair
from drobench.results.comparison.outcomes import is_feasible, outcome
from drobench.results.comparison.ranking import places, rank_intervals, shared_ranks
from drobench.results.comparison.targets import COSTS, Progress, Target, is_met
from drobench.results.comparison.tuning import Tuning, selected
from drobench.results.record import FAILURES, Iterate, Record, Status

_FALLBACK_MEASURE = "objective"


@dataclass(frozen=True)
class Question:
    """What is asked of the runs; see `leaderboard` for the meaning of each."""

    targets: tuple[Target, ...]
    iterate: str
    cost: str
    by: str | None
    across: Across
    baseline: str | None
    select: str | None

    @property
    def allowed(self) -> float | None:
        """The violation that the first target allows."""
        return self.targets[0].violation

    def point(self, record: Record) -> Iterate | None:
        """The iterate of a run that is compared."""
        found: Iterate | None = getattr(record.iterates, self.iterate)
        return found


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


def score(group: Group, way: Mapping[str, Progress], asked: Question) -> tuple[Board, list[Contender]]:
    """Build a board, and hand over who contended on it.

    Args:
        group: The runs.
        way: What their curves say, by run id.
        asked: The question.
    """
    skipped = [record for record in group.records if record.status is Status.SKIPPED]
    tried = grouping.variants([record for record in group.records if record.status is not Status.SKIPPED], asked.across)
    tunings: dict[str, Tuning] = selected(tried, way, asked.iterate, asked.allowed) if asked.select else {}
    solvers = {label: runs for label, runs in tried.items() if not tunings or label in tunings}
    pairs = {record.run_id: asked.across.pair(record) for runs in solvers.values() for record in runs}
    shared = sorted(
        set.intersection(*({pairs[record.run_id] for record in runs} for runs in solvers.values())), key=str
    )
    kept = set(shared)
    compared = {
        label: [record for record in runs if not shared or pairs[record.run_id] in kept]
        for label, runs in solvers.items()
    }
    everyone = [record for runs in compared.values() for record in runs]
    askable = [
        asked.iterate == "last" and any(way[record.run_id].costs[number] is not None for record in everyone)
        for number in range(len(asked.targets))
    ]
    measure = asked.by or _measure([asked.point(record) for record in everyone])
    contenders = [
        _contender(label, runs, shared, pairs, way, asked, askable, measure or _FALLBACK_MEASURE, tunings.get(label))
        for label, runs in compared.items()
    ]
    unranked = _rows(contenders, way, asked, askable)
    rows, tested = _ranked(unranked, contenders, bool(shared), measure or _FALLBACK_MEASURE, asked.cost)
    reference = _reference(rows, asked.baseline)
    rows = _with_comparisons(rows, tested, reference or rows[0].solver)
    remarks = [
        notes.pair_note(solvers, shared, asked.across),
        notes.repeated_seed_note(compared, asked.across),
        notes.few_pairs_note(len(rows), len(shared)),
        notes.detectable_note([row.comparison for row in rows if row.comparison is not None]),
        notes.optimum_note(compared, asked.across),
        *notes.budget_notes(compared, way),
        notes.reconstruction_note(compared),
        *notes.environment_notes(compared),
        notes.skipped_note(skipped),
        *notes.iterate_notes(compared, asked.iterate),
        notes.target_note(asked.iterate, askable[0]),
        notes.baseline_note(asked.baseline, reference),
    ]
    first = group.records[0]
    board = Board(
        title=group.title,
        problem={"name": first.problem.name, "config": _kept(first.problem.config, "problem", asked.across)},
        dataset={
            "name": first.dataset.name,
            "config": _kept(first.dataset.config, "dataset", asked.across),
            "sha256": group.checksum,
        },
        model=_kept(first.model, "model", asked.across),
        budget=first.budget,
        rows=tuple(rows),
        ranked_by=measure,
        notes=tuple(remark for remark in remarks if remark is not None),
        comparisons=tuple(tested),
        reference=(reference or rows[0].solver) if tested else None,
        cost=asked.cost,
    )
    return board, contenders


def _measure(points: Sequence[Iterate | None]) -> str | None:
    """The gap if there is one; else where there are constraints the error, elsewhere the objective."""

    def known(name: str) -> bool:
        return any(point is not None and getattr(point, name) is not None for point in points)

    wanted = ("gap", "train_error", "objective") if known("train_max_violation") else ("gap", "objective")
    return next((name for name in (*wanted, "test_error") if known(name)), None)


def _contender(
    label: str,
    runs: list[Record],
    shared: Sequence[Pair],
    pairs: Mapping[str, Pair],
    way: Mapping[str, Progress],
    asked: Question,
    askable: Sequence[bool],
    measure: str,
    tuning: Tuning | None,
) -> Contender:
    # Of several runs with the same seed the last one stands for it; they are in the order in which they started.
    standing = {pairs[record.run_id]: record for record in runs}
    chosen = [standing[pair] for pair in shared] if shared else runs
    costs = [
        [_cost(way[record.run_id], number, asked.cost) for record in chosen] if possible else None
        for number, possible in enumerate(askable)
    ]
    first = costs[0] or [math.inf] * len(chosen)
    paired = [
        PairedRun(record, asked.point(record), outcome(record, asked.point(record), spent, measure, asked.allowed))
        for record, spent in zip(chosen, first, strict=True)
    ]
    return Contender(label, runs, paired, costs, tuning)


def _cost(way: Progress, number: int, cost: str) -> float:
    found = way.costs[number]
    return math.inf if found is None else found[cost]


def _rows(
    contenders: Sequence[Contender], way: Mapping[str, Progress], asked: Question, askable: Sequence[bool]
) -> list[Row]:
    """The rows in no order yet."""
    values = [
        [_values(record, asked.point(record), way[record.run_id]) for record in contender.runs]
        for contender in contenders
    ]
    known = {metric for runs in values for run in runs for metric in METRICS if run.get(metric) is not None}
    samples: dict[tuple[int, str], list[float]] = {}
    for number, contender in enumerate(contenders):
        for metric in known:
            found = [
                math.inf if metric in QUALITIES and record.status in FAILURES else run.get(metric)
                for record, run in zip(contender.runs, values[number], strict=True)
            ]
            samples[number, metric] = [value for value in found if value is not None and not math.isnan(value)]
        for target, possible in enumerate(askable):
            for cost in COSTS if possible else ():
                samples[number, f"{cost} {target}"] = [
                    _cost(way[record.run_id], target, cost) for record in contender.runs
                ]
    full = {key: sample for key, sample in samples.items() if sample}
    summaries = dict(zip(full, Summary.of_many(list(full.values())), strict=True))
    return [
        _row(contender, {name: summary for (owner, name), summary in summaries.items() if owner == number}, way, asked)
        for number, contender in enumerate(contenders)
    ]


def _values(record: Record, point: Iterate | None, way: Progress) -> dict[str, float | None]:
    """The numbers of one run that do not depend on a target, by the names in `METRICS`."""
    values: dict[str, float | None] = {name: getattr(point, name, None) for name in QUALITIES}
    values["seconds_total"] = record.seconds.total
    if way.start_gap is not None and point is not None and point.gap is not None:
        values["relative_gap"] = point.gap / way.start_gap
    return values


def _row(contender: Contender, summaries: Mapping[str, Summary], way: Mapping[str, Progress], asked: Question) -> Row:
    runs = contender.runs
    first = runs[0]
    feasible = [record.status not in FAILURES and is_feasible(asked.point(record), asked.allowed) for record in runs]
    metrics = {name: summaries.get(name) for name in METRICS}
    metrics |= {f"{cost}_to_target": summaries.get(f"{cost} 0") for cost in COSTS}
    return Row(
        rank=1,
        solver=contender.label,
        name=first.solver.name,
        config=first.solver.config,
        seeds=tuple(record.seed for record in runs),
        run_ids=tuple(record.run_id for record in runs),
        failed=sum(record.status in FAILURES for record in runs),
        feasible_share=sum(feasible) / len(runs),
        metrics=metrics,
        reached=tuple(
            Reached(
                target=target,
                share=sum(_has_reached(record, number, way[record.run_id], asked) for record in runs) / len(runs),
                costs={cost: summaries.get(f"{cost} {number}") for cost in COSTS},
            )
            for number, target in enumerate(asked.targets)
        ),
        tuning=contender.tuning,
    )


def _has_reached(record: Record, number: int, way: Progress, asked: Question) -> bool:
    """On its way if that is recorded, else at its end."""
    if asked.iterate == "last":
        return math.isfinite(_cost(way, number, asked.cost))
    point = asked.point(record)
    return record.status not in FAILURES and point is not None and is_met(asked.targets[number], point, way.start_gap)


def _ranked(
    rows: Sequence[Row], contenders: Sequence[Contender], is_paired: bool, measure: str, cost: str
) -> tuple[list[Row], list[Comparison]]:
    """The rows in order with their ranks, and the tests these rest on; without common seeds nothing is tested."""
    outcomes = [[run.outcome for run in contender.paired] for contender in contenders]
    middle = {
        row.solver: (sorted(found)[len(found) // 2], _or_worst(row.median(measure)))
        for row, found in zip(rows, outcomes, strict=True)
    }
    if not is_paired:
        return sorted(rows, key=lambda row: (middle[row.solver], row.solver)), []
    taken = places(outcomes)
    intervals: Sequence[tuple[int, int] | None] = rank_intervals(taken) or [None] * len(rows)
    placed = [
        dataclasses.replace(row, mean_place=float(mean), rank_interval=interval)
        for row, mean, interval in zip(rows, taken.mean(axis=1), intervals, strict=True)
    ]
    placed.sort(key=lambda row: (row.mean_place, middle[row.solver], row.solver))
    ordered = [row.solver for row in placed]
    tested = comparisons(ordered, {contender.label: contender.paired for contender in contenders}, measure, cost)
    worse = {(found.worse, found.better) for found in tested if found.significant and found.wins > found.losses}
    ranks = shared_ranks(ordered, lambda label, leader: (label, leader) in worse)
    return [dataclasses.replace(row, rank=ranks[row.solver]) for row in placed], tested


def _or_worst(value: float | None) -> float:
    return math.inf if value is None else value


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


def _kept(settings: Mapping[str, Any], part: str, across: Across) -> dict[str, Any]:
    """The settings without those that differ within the board."""
    return {name: value for name, value in settings.items() if f"{part}.{name}" not in across.names}
