"""Stored runs of the sweeps: what each reached by passes and by seconds, measured from one value for each instance.

A gap of 1e-8 is finer than what certificates promise, so the value from which gaps are measured is the least that is
known: the certified optimum, or a lower value if any run on the same data has found one. How far it may still be
above the optimum is what the duality gap says, and a target below that is not judged: a run would only be held against
itself.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.studies.second_order.instances import Instance, instance_of
from drobench.results.parts import certified_within
from drobench.results.record import FAILURES, Record
from drobench.results.store import ResultStore


@dataclass(frozen=True)
class Run:
    """What one method did on one instance with one seed.

    Attributes:
        passes: At each look; as long as the two that follow, and empty for a run that failed before the first.
        seconds: Of the solver alone.
        values: The objective.
        optimum: The certified one, `None` where there is none.
        duality_gap: Of its certificate.
        failure: Why it has failed, if it has.
    """

    method: str
    seed: int
    passes: Sequence[float]
    seconds: Sequence[float]
    values: Sequence[float]
    optimum: float | None = None
    duality_gap: float = math.inf
    failure: str | None = None


@dataclass(frozen=True)
class Curve:
    """A run as relative gaps, `(value - least) / (value at the start - least)`.

    Attributes:
        certified: The smallest gap that means something, since the optimum may be that much lower than `least`.
    """

    run: Run
    gaps: Sequence[float]
    certified: float

    def passes_to(self, target: float) -> float:
        """Return the passes at the first look within the target, or infinity."""
        return self._first(self.run.passes, target)

    def seconds_to(self, target: float) -> float:
        """The same in seconds of the solver."""
        return self._first(self.run.seconds, target)

    @property
    def last(self) -> float:
        """The gap that the run ended with."""
        return self.gaps[-1] if self.gaps else math.inf

    def _first(self, spent: Sequence[float], target: float) -> float:
        return next((used for used, gap in zip(spent, self.gaps, strict=True) if gap <= target), math.inf)


@dataclass(frozen=True)
class Measured:
    """All runs on one instance.

    Attributes:
        curves: By method, in the order of the seeds.
        trivial: Seeds whose start is certified to be optimal, which are not in the curves.
        certified: For each of the other seeds, how exactly the optimum is known, relative to the gap of the start.
    """

    instance: Instance
    curves: Mapping[str, Sequence[Curve]]
    trivial: Sequence[int]
    certified: Mapping[int, float]


def load(folder: Path) -> list[Measured]:
    """Return everything that the sweeps have left in a folder of results."""
    store = ResultStore(folder)
    found: dict[Instance, list[Run]] = defaultdict(list)
    for record in store.records().records:
        instance = instance_of(record)
        if instance is not None:
            found[instance].append(_read(store, record))
    return [measure(instance, runs) for instance, runs in sorted(found.items())]


def _read(store: ResultStore, record: Record) -> Run:
    known = record.optimum
    failure = record.reason or str(record.status) if record.status in FAILURES else None
    optimum = None if known is None else known.value
    duality_gap = math.inf if known is None else max(float(known.certificate["gap"]), 0.0)
    bare = Run(record.solver.name, record.seed, [], [], [], optimum, duality_gap, failure)
    curve = store.curve(record.run_id)
    if curve.is_empty() or "passes" not in curve.columns:
        return bare
    values = [math.inf if value is None or math.isnan(value) else value for value in curve["objective"].to_list()]
    return replace(bare, passes=curve["passes"].to_list(), seconds=curve["solver_seconds"].to_list(), values=values)


def measure(instance: Instance, runs: Iterable[Run]) -> Measured:
    """Return the runs as gaps from the least value that is known for their seed."""
    by_seed: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        by_seed[run.seed].append(run)
    curves: dict[str, list[Curve]] = defaultdict(list)
    trivial, certified = [], {}
    for seed, together in sorted(by_seed.items()):
        values = [value for run in together for value in run.values]
        known = [run for run in together if run.optimum is not None]
        least = min([*values, *(run.optimum for run in known if run.optimum is not None)], default=math.nan)
        start = max((run.values[0] for run in together if run.values), default=math.nan)
        if known and start - least <= certified_within(least):
            trivial.append(seed)
            continue
        scale = start - least if start > least else math.nan
        certified[seed] = min((run.duality_gap for run in known), default=math.inf) / scale if known else math.inf
        for run in together:
            gaps = [(value - least) / scale for value in run.values]
            curves[run.method].append(Curve(run, gaps, certified[seed]))
    return Measured(instance, curves, trivial, certified)


def reached(spent: Sequence[float]) -> str:
    """Return the median with the range, or how many seeds there are that get there where not all do."""
    there = [each for each in spent if each < math.inf]
    if not spent:
        return "not certified"
    if not there:
        return "none"
    if len(there) < len(spent):
        return f"{len(there)} of {len(spent)} seeds"
    return f"{short(median(there))} ({short(min(there))} to {short(max(there))})"


def short(number: float) -> str:
    """Return passes with one decimal, and seconds below one with two digits that mean something."""
    return f"{number:.1f}" if number >= 1.0 else f"{number:.2g}"
