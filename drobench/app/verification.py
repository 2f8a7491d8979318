"""Computing stored results again, from the stored solutions, and naming every number that comes out different.

What a record says about its iterates is recomputed on the original problem, with the plugins and the data installed
here; nothing of a bundle is ever run. The optimum is found and certified again. A run can also be repeated as a whole.
"""

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from drobench.app.assemble import DTYPES, instance_of
from drobench.app.cell import run_cell
from drobench.app.config import RunConfig, from_yaml, plain
from drobench.app.identity import determinants
from drobench.app.loading import LastDataset
from drobench.app.optimum import find_optimum
from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError
from drobench.problem.problem import Problem
from drobench.registry import Catalogue
from drobench.results.outcome import outcome_of, scored_start
from drobench.results.parts import RELATIVE_TOLERANCE
from drobench.results.record import FAILURES, ITERATES, Iterate, Record, Status, content_id
from drobench.results.store import ResultStore
from drobench.training.evaluation import Evaluator

# By how much a recomputed number may differ: the order of sums is another on another machine.
_TOLERANCES = {"float64": 1e-8, "float32": 1e-3}
# A repeated run adds up the rounding errors of all its steps.
_RERUN_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Mismatch:
    """A number or a setting that is not what the record says."""

    run: str
    what: str
    recorded: Any
    recomputed: Any

    def __str__(self) -> str:
        return f"{self.what}: recorded {self.recorded!r}, recomputed {self.recomputed!r}"


@dataclass(frozen=True)
class Verdict:
    """What came of one run: mismatches, or why it could not be checked; neither if all is well."""

    record: Record
    mismatches: tuple[Mismatch, ...] = ()
    unverified: str | None = None


class Verifier:
    """Recomputes the runs of one folder of results."""

    def __init__(self, store: ResultStore, catalogue: Catalogue, optima: Path) -> None:
        self.store = store
        self.catalogue = catalogue
        self.optima = optima
        self.datasets = LastDataset()

    def verify(self, record: Record) -> Verdict:
        """Check one run."""
        if not any(getattr(record.iterates, name) for name in ITERATES):
            return Verdict(record, unverified=f"it {record.status} without a solution ({record.reason})")
        try:
            config = from_yaml(self.store.config(record.run_id), self.catalogue)
            dataset = self.datasets.load(config, self.catalogue)
            found = [*self._identity(record, config, dataset), *self._results(record, config, dataset)]
        except (DrobenchError, OSError, ValueError, RuntimeError) as error:
            # Data that are not here, plugins that are not installed, points of another length.
            return Verdict(record, unverified=f"{type(error).__name__}: {error}")
        return Verdict(record, tuple(found))

    def _identity(self, record: Record, config: RunConfig, dataset: Dataset) -> Iterator[Mismatch]:
        """Compare the settings in record and configuration, the data, and the id that follows from them."""
        values = plain(config)
        for group in ("solver", "problem", "dataset"):
            recorded = getattr(record, group)
            settings = dict(values[group])
            yield from _compared(record, f"{group}.name", recorded.name, settings.pop("name"))
            yield from _compared(record, f"{group}.config", recorded.config, settings)
        for group in ("model", "budget", "reformulation"):
            yield from _compared(record, group, getattr(record, group), values[group])
        yield from _compared(record, "seed", record.seed, config.seed)
        yield from _compared(record, "dataset.sha256", record.dataset.sha256, dataset.sha256)
        # With the versions it was made with, which need not be those installed here.
        decided = determinants(config, self.catalogue, dataset.sha256)
        decided["plugins"] = {
            group: [getattr(record, group).distribution, getattr(record, group).version]
            for group in ("dataset", "problem", "solver")
        }
        yield from _compared(record, "run_id", record.run_id, content_id(decided))

    def _results(self, record: Record, config: RunConfig, dataset: Dataset) -> Iterator[Mismatch]:
        build = self.catalogue.problem(config.problem.name).entry.factory
        exact = build(config.problem, dataset, config.model)
        yield from self._optimum(record, config, dataset, exact)
        dtype = DTYPES[config.trainer.dtype]
        problem = exact if dtype is torch.float64 else build(config.problem, dataset.to("cpu", dtype), config.model)
        evaluator = Evaluator(problem, None if record.optimum is None else record.optimum.value)
        points = self.store.solution(record.run_id)
        for name in ITERATES:
            recorded: Iterate | None = getattr(record.iterates, name)
            if recorded is None:
                continue
            if name not in points:
                yield Mismatch(record.run_id, f"solution of `{name}`", "scores", None)
                continue
            point = torch.from_numpy(points[name]).to(dtype)
            scores = evaluator.score(point, recorded.step or 0).as_dict()
            scores |= scores.pop("extra")
            for field, value in {**vars(recorded), **recorded.others}.items():
                if field in scores and field != "step":
                    yield from _compared(
                        record, f"{name}.{field}", value, scores[field], _TOLERANCES[config.trainer.dtype]
                    )
        yield from self._curve(record)
        yield from self._outcome(record)

    def _optimum(self, record: Record, config: RunConfig, dataset: Dataset, exact: Problem) -> Iterator[Mismatch]:
        if record.optimum is None:
            return
        found = find_optimum(exact, instance_of(config, dataset), self.catalogue, self.optima).optimum
        value = None if found is None else found.value
        # Both are certified to this much, so they may differ by both.
        yield from _compared(record, "optimum.value", record.optimum.value, value, 2.0 * RELATIVE_TOLERANCE)

    def _curve(self, record: Record) -> Iterator[Mismatch]:
        """The counters of the curve must never fall, nor end above those of the record."""
        curve = self.store.curve(record.run_id)
        for name in ("inner_values", "inner_jacobians", "loss_gradients", "constraint_checks", "projections"):
            if name in curve.columns and curve.height:
                counts = curve[name]
                if not counts.is_sorted():
                    yield Mismatch(record.run_id, f"curve: {name}", "falling", "never falling")
                if counts[-1] > (getattr(record.oracle, name) or 0):
                    yield Mismatch(record.run_id, f"oracle.{name}", getattr(record.oracle, name), counts[-1])

    def _outcome(self, record: Record) -> Iterator[Mismatch]:
        """The outcome must follow from the first row of the curve and the last iterate; older records have none."""
        if record.outcome is not None:
            curve = self.store.curve(record.run_id)
            start = scored_start(curve.row(0, named=True)) if curve.height else None
            follows = outcome_of(record.status, start, record.iterates.last, record.optimum)
            yield from _compared(record, "outcome", str(record.outcome), None if follows is None else str(follows))

    def rerun(self, record: Record) -> Verdict:
        """Do a run again as a whole."""
        if record.budget.get("seconds") is not None:
            return Verdict(record, unverified="its budget is in seconds, so that no two runs are the same")
        if record.status in FAILURES or record.status is Status.SKIPPED:
            return Verdict(record, unverified=f"it {record.status}")
        with tempfile.TemporaryDirectory(prefix="drobench-rerun-") as folder:
            try:
                config = from_yaml(self.store.config(record.run_id), self.catalogue)
                config = replace(config, results=folder, logger=replace(config.logger, name="none"))
                again = run_cell(config, self.catalogue, datasets=self.datasets)
            except (DrobenchError, OSError) as error:
                return Verdict(record, unverified=f"{type(error).__name__}: {error}")
        if again.iterates.last is None or record.iterates.last is None:
            return Verdict(record, (Mismatch(record.run_id, "status", record.status, again.status),))
        found = [
            mismatch
            for field in ("objective", "train_error", "test_error", "train_max_violation", "test_max_violation")
            for mismatch in _compared(
                record,
                f"rerun: last.{field}",
                getattr(record.iterates.last, field),
                getattr(again.iterates.last, field),
                _RERUN_TOLERANCE,
            )
        ]
        return Verdict(record, tuple(found))


def _compared(
    record: Record, what: str, recorded: Any, recomputed: Any, tolerance: float | None = None
) -> Iterator[Mismatch]:
    if tolerance is None or not _are_numbers(recorded, recomputed):
        same = recorded == recomputed
    else:
        same = math.isclose(recorded, recomputed, rel_tol=tolerance, abs_tol=tolerance)
    if not same:
        yield Mismatch(record.run_id, what, recorded, recomputed)


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
