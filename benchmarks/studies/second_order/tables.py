"""The tables, as Markdown."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median

from benchmarks.studies.second_order.goals import Goal, judge
from benchmarks.studies.second_order.instances import CURVED, METHODS
from benchmarks.studies.second_order.large import GOALS, Large
from benchmarks.studies.second_order.large import METHODS as LARGE_METHODS
from benchmarks.studies.second_order.runs import Measured, reached, short
from benchmarks.studies.second_order.seconds import RATIO, Race

TARGETS = (1e-4, 1e-6, 1e-8)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def goal_table(found: Iterable[Measured], goals: Sequence[Goal]) -> str:
    """Return the passes of the worst seed for each instance and goal."""
    return table(
        ["data", "problem", *(goal.words for goal in goals), "met"],
        (_goal_row(measured, goals) for measured in found),
    )


def _goal_row(measured: Measured, goals: Sequence[Goal]) -> list[str]:
    instance = measured.instance
    if not measured.certified:
        return [instance.data, instance.problem, *("start is optimal" for _ in goals), "-"]
    judged = [judge(goal, measured) for goal in goals]
    cells = [verdict.cell for verdict in judged]
    return [instance.data, instance.problem, *cells, "yes" if all(verdict.met for verdict in judged) else "NO"]


def method_tables(found: Iterable[Measured]) -> Iterator[tuple[str, str]]:
    """Return for each table of data what every method reached on it, under the name of the data."""
    targets = [f"passes to {target:.0e}" for target in TARGETS]
    head = ["problem", "method", *targets, f"seconds to {TARGETS[1]:.0e}", "gap at the end"]
    for data, together in groupby(found, key=lambda measured: measured.instance.data):
        yield data, table(head, (row for measured in together for row in _method_rows(measured)))


def _method_rows(measured: Measured) -> Iterator[list[str]]:
    for method in (name for name in METHODS if name in measured.curves):
        curves = measured.curves[method]
        known = {target: [curve for curve in curves if curve.certified <= target] for target in TARGETS}
        passes = [reached([curve.passes_to(target) for curve in known[target]]) for target in TARGETS]
        seconds = reached([curve.seconds_to(TARGETS[1]) for curve in known[TARGETS[1]]])
        last = f"{max(median(curve.last for curve in curves), 0.0):.1e}"
        failed = sum(curve.run.failure is not None for curve in curves)
        yield [
            measured.instance.problem,
            f"`{method}`",
            *passes,
            seconds,
            f"{last}, {failed} failed" if failed else last,
        ]


def race_table(races: Iterable[Race]) -> str:
    """Return the seconds of every side, and their ratio."""
    head = ["data", "problem", "scipy, evaluations", *(f"`{name}`" for name in CURVED), "best / scipy", "met"]
    return table(head, (_race_row(race) for race in races))


def _race_row(race: Race) -> list[str]:
    cells = [_milliseconds(race.ours[name]) if name in race.ours else "not there" for name in CURVED]
    scipy = f"{_milliseconds(race.scipy)}, {race.evaluations}"
    met = "yes" if race.met else f"NO, {RATIO:g} wanted"
    return [race.instance.data, race.instance.problem, scipy, *cells, f"{race.ratio:.2g}", met]


def _milliseconds(seconds: float) -> str:
    return "not in time" if math.isinf(seconds) else f"{1e3 * seconds:.3g} ms"


def large_table(found: Iterable[Large]) -> str:
    """Return passes and seconds of both methods by seed."""
    goals = [f"{target:.0e} in {within:g}" for target, within in GOALS]
    head = ["seed", *(f"`{name}`, {goal}" for name in LARGE_METHODS for goal in goals), "certified to"]
    return table(head, (_large_row(each) for each in found))


def _large_row(each: Large) -> list[str]:
    cells = [
        "not" if math.isinf(passes) else f"{passes:.2f} passes, {short(seconds)} s"
        for name, found in each.passes.items()
        for passes, seconds in zip(found, each.seconds[name], strict=True)
    ]
    return [str(each.seed), *cells, f"{each.certificate:.1e}"]
