"""Error against violation: which solvers give away the least of one for the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from drobench.results.comparison.statistics import median
from drobench.results.record import ITERATES, Record

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class SolverPoints:
    """The runs of one solver in the plane of violation and error.

    Attributes:
        label: The solver.
        runs: Violation and error of each run that has both.
        middle: The median of each.
        efficient: Whether no other solver's middle is at least as good in both and better in one.
    """

    label: str
    runs: tuple[tuple[float, float], ...]
    middle: tuple[float, float]
    efficient: bool


def trade_offs(rows: Sequence[tuple[str, Sequence[Record]]]) -> dict[tuple[str, str], list[SolverPoints]]:
    """The points of every solver by iterate and split; combinations without any point are left out.

    Args:
        rows: Label and runs of each solver.
    """
    answer = {}
    for iterate in ITERATES:
        for split in SPLITS:
            points = {label: found for label, runs in rows if (found := _points(runs, iterate, split))}
            if points:
                answer[iterate, split] = _compared(points)
    return answer


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """The positions of the points that no other point dominates, in the order of the first coordinate."""
    return sorted(
        (position for position, point in enumerate(points) if not any(_dominates(other, point) for other in points)),
        key=lambda position: points[position],
    )


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] <= other[0] and one[1] <= other[1]


def _points(runs: Sequence[Record], iterate: str, split: str) -> list[tuple[float, float]]:
    found = []
    for record in runs:
        point = getattr(record.iterates, iterate)
        violation = getattr(point, f"{split}_max_violation", None)
        error = getattr(point, f"{split}_error", None)
        if violation is not None and error is not None:
            found.append((violation, error))
    return found


def _compared(points: dict[str, list[tuple[float, float]]]) -> list[SolverPoints]:
    middles = {
        label: (median([violation for violation, _ in runs]), median([error for _, error in runs]))
        for label, runs in points.items()
    }
    labels = list(points)
    front = pareto_front([middles[label] for label in labels])
    efficient = {labels[position] for position in front}
    return [SolverPoints(label, tuple(runs), middles[label], label in efficient) for label, runs in points.items()]
