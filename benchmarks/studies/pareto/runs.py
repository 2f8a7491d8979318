"""The runs of `drobench sweep pareto`: which method, at which setting of its dial, ended where."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.studies.pareto.hypervolume import Point, hypervolume
from drobench.results.record import Record
from drobench.results.store import ResultStore

# The corner: the error of one answer for everybody, and about twice the violation of training without constraints on
# test rows, as docs/reproduction.md had it before there was this study.
CORNERS = {"intersectional_fairness": Point(0.305, 0.5), "noisy_group_fairness": Point(0.239, 0.1)}
TASKS = {"intersectional_fairness": "intersectional groups", "noisy_group_fairness": "noisy groups"}
OURS = "GCIVR"
ADAPTED = "GCIVR, weight follows"
METHODS = {
    OURS: "alpha",
    ADAPTED: "alpha",
    "Newton": "alpha",
    "heavily constrained": "dual_scale",
    "Lagrangian": "dual_scale",
    "unconstrained": None,
}
"""The names of the methods, and of their dials."""
_BY_SOLVER = {
    "gcivr": OURS,
    "newton": "Newton",
    "heavily_constrained": "heavily constrained",
    "lagrangian": "Lagrangian",
    "unconstrained": "unconstrained",
}
ROWS = ("train", "test")


@dataclass(frozen=True)
class End:
    """Where a run ended: error and violation on training and test rows, and the solver seconds it took."""

    points: dict[str, Point]
    seconds: float


@dataclass
class Measured:
    """All runs of a task: by method, by the value of its dial (0 without one), by split."""

    problem: str
    ends: dict[str, dict[float, dict[int, End]]] = field(default_factory=dict)
    lost: int = 0
    """Runs that returned nothing."""

    def splits(self, method: str) -> list[int]:
        """Return the splits on which this method has all its settings."""
        settings = self.ends[method].values()
        return sorted(set.intersection(*(set(by_split) for by_split in settings)))

    def volumes(self, method: str, rows: str) -> dict[int, float]:
        """Return what the method dominates on each split."""
        return {
            split: hypervolume(
                (by_split[split].points[rows] for by_split in self.ends[method].values()), CORNERS[self.problem]
            )
            for split in self.splits(method)
        }


def load(root: Path) -> list[Measured]:
    """Return the runs in a folder of results, by task.

    Raises:
        SystemExit: If there are none, or some that had more to spend than others of the same method.
    """
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in ResultStore(root).records().records:
        if record.problem.name in TASKS and record.solver.name in _BY_SOLVER:
            by_task[record.problem.name].append(record)
    if not by_task:
        raise SystemExit(f"No run of the study in {root}. Run `drobench sweep pareto --results {root}` first.")
    return [measure(problem, by_task[problem]) for problem in TASKS if problem in by_task]


def measure(problem: str, records: Iterable[Record]) -> Measured:
    """Return the ends of the runs of one task."""
    found = Measured(problem, {method: {} for method in METHODS})
    budgets: dict[str, str] = {}
    for record in records:
        method, value = setting(record)
        budget = repr(sorted(record.budget.items()))
        if budgets.setdefault(method, budget) != budget:
            raise SystemExit(
                f"Runs of {method} on {problem} have different budgets: {budgets[method]} and {budget}. Give the sweep "
                "a folder of its own with --results."
            )
        end = _end(record)
        if end is None:
            found.lost += 1
        else:
            found.ends[method].setdefault(value, {})[record.dataset.config["seed"]] = end
    found.ends = {method: dict(sorted(settings.items())) for method, settings in found.ends.items() if settings}
    return found


def setting(record: Record) -> tuple[str, float]:
    """Return the method of a run and where its dial stood."""
    method = _BY_SOLVER[record.solver.name]
    if method == OURS and record.reformulation.get("adapt_alpha"):
        method = ADAPTED
    dial = METHODS[method]
    values = {**record.solver.config, **record.reformulation}
    return method, 0.0 if dial is None else float(values[dial])


def _end(record: Record) -> End | None:
    last = record.iterates.last
    if last is None:
        return None
    points = {}
    for rows in ROWS:
        error, violation = getattr(last, f"{rows}_error"), getattr(last, f"{rows}_max_violation")
        if error is None or violation is None:
            return None
        points[rows] = Point(error, max(violation, 0.0))
    return End(points, record.seconds.solver or 0.0)
