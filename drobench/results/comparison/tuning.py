"""One configuration per solver, chosen on validation data, and what choosing it cost."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drobench.results.comparison.readings import CurveReading
from drobench.results.comparison.standings import is_feasible
from drobench.results.comparison.statistics import median
from drobench.results.record import FAILURES, Iterate, Record


@dataclass(frozen=True)
class Tuning:
    """What it cost to have a choice, the chosen runs included.

    Attributes:
        configurations: How many were tried.
        runs: How many runs that took.
        oracle_calls: Of all these runs together, as far as they are known.
        seconds: Solver seconds of all these runs together.
    """

    configurations: int
    runs: int
    oracle_calls: float
    seconds: float


def selected(
    tried: Mapping[str, Sequence[Record]], readings: Mapping[str, CurveReading], iterate: str, allowed: float | None
) -> dict[str, Tuning]:
    """The label of the chosen configuration of each solver, with the cost of the choice.

    Chosen is the configuration with the fewest failed runs, then the fewest infeasible ones, then the smallest median
    violation of the validation constraints (where it is not kept), then the smallest median validation error, or
    objective where there is none. The test data have no say.

    Args:
        tried: The runs of each configuration on one board, by label.
        readings: What is known from the curves, by run id.
        iterate: Which iterate is compared.
        allowed: The violation up to which an iterate counts as feasible; `None` leaves it to the problem.
    """
    solvers: dict[str, list[str]] = defaultdict(list)
    for label, runs in tried.items():
        solvers[runs[0].solver.name].append(label)
    chosen = {}
    for labels in solvers.values():
        best = min(labels, key=lambda label: (*_demerit(tried[label], iterate, allowed), label))
        chosen[best] = _cost([tried[label] for label in labels], readings)
    return chosen


def _demerit(runs: Sequence[Record], iterate: str, allowed: float | None) -> tuple[float, ...]:
    complete = [record for record in runs if record.status not in FAILURES]
    points = [point for record in complete if (point := getattr(record.iterates, iterate)) is not None]
    failed = 1 - len(points) / len(runs)
    infeasible = sum(not is_feasible(point, allowed) for point in points) / len(runs)
    excess = [0.0 if is_feasible(point, allowed) else _violation(point) for point in points]
    return failed, infeasible, median(excess) if excess else 0.0, _median_error([_error(point) for point in points])


def _violation(point: Iterate) -> float:
    known = (point.validation_max_violation, point.train_max_violation)
    return max(0.0, next((value for value in known if value is not None), 0.0))


def _error(point: Iterate) -> float | None:
    return point.objective if point.validation_error is None else point.validation_error


def _median_error(values: Sequence[float | None]) -> float:
    return median([float("inf") if value is None else value for value in values]) if values else float("inf")


def _cost(configurations: Sequence[Sequence[Record]], readings: Mapping[str, CurveReading]) -> Tuning:
    runs = [record for configuration in configurations for record in configuration]
    return Tuning(
        configurations=len(configurations),
        runs=len(runs),
        oracle_calls=sum(readings[record.run_id].used.get("oracle_calls", 0.0) for record in runs),
        seconds=sum(record.seconds.solver or 0.0 for record in runs),
    )
