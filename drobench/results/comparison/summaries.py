"""The rows of a board, in no order yet: the numbers of each contender, summarised over its runs."""

import math
from collections.abc import Mapping, Sequence

from drobench.results.comparison.contenders import Contender, cost_of
from drobench.results.comparison.metrics import COSTS, METRICS, QUALITIES, value_of
from drobench.results.comparison.question import Question
from drobench.results.comparison.readings import CurveReading
from drobench.results.comparison.rows import Reached, Row, Summary
from drobench.results.comparison.standings import is_feasible
from drobench.results.comparison.targets import is_met
from drobench.results.record import FAILURES, Outcome, Record

Samples = dict[tuple[int, str], list[float]]
"""One number per run, by the number of the contender and the name of the metric or of a cost and target."""


def unranked_rows(
    contenders: Sequence[Contender],
    readings: Mapping[str, CurveReading],
    asked: Question,
    askable: Sequence[bool],
) -> list[Row]:
    """Summarise what each contender did.

    Args:
        contenders: Who is compared.
        readings: What the curves of their runs say, by run id.
        asked: The question.
        askable: For each target, whether it can be asked of any run.
    """
    samples = _metric_samples(contenders, readings, asked) | _cost_samples(contenders, readings, askable)
    full = {key: sample for key, sample in samples.items() if sample}
    # All at once, since samples of the same size take hardly longer than one.
    summaries = dict(zip(full, Summary.of_many(list(full.values())), strict=True))
    return [
        _row(
            contender,
            {name: summary for (owner, name), summary in summaries.items() if owner == number},
            readings,
            asked,
        )
        for number, contender in enumerate(contenders)
    ]


def _metric_samples(contenders: Sequence[Contender], readings: Mapping[str, CurveReading], asked: Question) -> Samples:
    """The metrics that any run has; a failed run counts as infinite, where more is better as minus infinity."""
    values = [
        [_values(record, asked, readings[record.run_id]) for record in contender.runs] for contender in contenders
    ]
    qualities = {*QUALITIES, *asked.further}
    known = {metric for runs in values for run in runs for metric in run if run[metric] is not None}
    samples: Samples = {}
    for number, contender in enumerate(contenders):
        for metric in known:
            worst = -math.inf if metric in asked.more_is_better else math.inf
            found = [
                worst if metric in qualities and record.status in FAILURES else run.get(metric)
                for record, run in zip(contender.runs, values[number], strict=True)
            ]
            samples[number, metric] = [value for value in found if value is not None and not math.isnan(value)]
    return samples


def _cost_samples(
    contenders: Sequence[Contender], readings: Mapping[str, CurveReading], askable: Sequence[bool]
) -> Samples:
    return {
        (number, f"{cost} {target}"): [cost_of(readings[record.run_id], target, cost) for record in contender.runs]
        for number, contender in enumerate(contenders)
        for target, possible in enumerate(askable)
        if possible
        for cost in COSTS
    }


def _values(record: Record, asked: Question, reading: CurveReading) -> dict[str, float | None]:
    """The numbers of one run that do not depend on a target, by the names in `METRICS` and those asked for."""
    point = asked.point(record)
    values: dict[str, float | None] = {name: getattr(point, name, None) for name in QUALITIES}
    values |= {name: value_of(point, name) for name in asked.further}
    values["seconds_total"] = record.seconds.total
    if reading.start_gap is not None and point is not None and point.gap is not None:
        values["relative_gap"] = point.gap / reading.start_gap
    return values


def _row(
    contender: Contender, summaries: Mapping[str, Summary], readings: Mapping[str, CurveReading], asked: Question
) -> Row:
    runs = contender.runs
    first = runs[0]
    feasible = [record.status not in FAILURES and is_feasible(asked.point(record), asked.allowed) for record in runs]
    metrics = {name: summaries.get(name) for name in (*METRICS, *asked.further)}
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
                share=sum(_has_reached(record, number, readings[record.run_id], asked) for record in runs) / len(runs),
                costs={cost: summaries.get(f"{cost} {number}") for cost in COSTS},
            )
            for number, target in enumerate(asked.targets)
        ),
        tuning=contender.tuning,
        worse_than_start=sum(
            record.status not in FAILURES and asked.outcome(readings[record.run_id].ending) is Outcome.WORSE_THAN_START
            for record in runs
        ),
    )


def _has_reached(record: Record, number: int, reading: CurveReading, asked: Question) -> bool:
    """On its way if that is recorded, else at its end."""
    if asked.iterate == "last":
        return math.isfinite(cost_of(reading, number, asked.cost))
    point = asked.point(record)
    return (
        record.status not in FAILURES and point is not None and is_met(asked.targets[number], point, reading.start_gap)
    )
