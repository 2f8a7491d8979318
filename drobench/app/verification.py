"""Computing stored results again, from the stored solutions, and naming every number that comes out different.

What a record says about its iterates is recomputed on the original problem, with the plugins and the data installed
here, and its files must not contradict each other; nothing of a bundle is ever run. The optimum is found and certified
again. The method is not needed for that, so that results of methods that are not here are verified too. What the
method did on the way, the curve and the counts, can only be shown by doing the run again as a whole.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from drobench.app.assemble import DTYPES, instance_of
from drobench.app.cell import run_cell
from drobench.app.claims import contradictions, iterate_values
from drobench.app.code import code_of
from drobench.app.config import from_yaml
from drobench.app.encoding_claims import encoding_mismatches
from drobench.app.freshness import why_stale
from drobench.app.loading import LastDataset
from drobench.app.mismatches import Mismatch, compared
from drobench.app.optimum import find_optimum
from drobench.app.repetition import differences, refuse_more_than_there_is, why_not_repeatable
from drobench.app.stored_config import ScoredPart, scored_part, stored_values
from drobench.data.dataset import Dataset
from drobench.objective.forms import Constrained
from drobench.problem.problem import Problem
from drobench.registry import Catalogue
from drobench.registry.models import model_of
from drobench.results.metric import stored_metrics
from drobench.results.parts import RELATIVE_TOLERANCE
from drobench.results.record import FAILURES, ITERATES, Record, Status
from drobench.results.store import ResultStore
from drobench.training.evaluation import Evaluator

# By how much a recomputed number may differ: the order of sums is another on another machine.
_TOLERANCES = {"float64": 1e-8, "float32": 1e-3}


@dataclass(frozen=True)
class Verdict:
    """What came of one run: mismatches, or why it could not be checked; neither if all is well.

    Attributes:
        mismatches: What is not as recorded.
        unverified: Why nothing could be checked here.
        nothing: Why there is nothing to check: the run failed, and says so.
        changed: Of a repeated run, how the code here differs from the one that made it.
    """

    record: Record
    mismatches: tuple[Mismatch, ...] = ()
    unverified: str | None = None
    nothing: str | None = None
    changed: str | None = None

    @property
    def confirmed(self) -> bool:
        """Whether all that was checked is as recorded."""
        return not self.mismatches and self.unverified is None and self.nothing is None


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
            if record.status in (*FAILURES, Status.SKIPPED):
                return Verdict(record, nothing=f"it {record.status} without a solution ({record.reason})")
            return Verdict(record, (Mismatch("iterates", f"{record.status} without any", "at least the last one"),))
        try:
            values = stored_values(self.store.config(record.run_id))
            part = scored_part(values, self.catalogue)
            dataset = self.datasets.load(part, self.catalogue)
            found = [
                *contradictions(record, values, self.store.curve(record.run_id), self.catalogue),
                *compared("dataset.sha256", record.dataset.sha256, dataset.sha256),
                *self._results(record, part, dataset),
            ]
        except Exception as error:  # plugins not here, other data, forged values: one run must not hide the others
            return Verdict(record, unverified=f"{type(error).__name__}: {error}")
        return Verdict(record, tuple(found))

    def _results(self, record: Record, part: ScoredPart, dataset: Dataset) -> Iterator[Mismatch]:
        build = self.catalogue.problem(part.problem.name).entry.factory
        model = model_of(part.model, self.catalogue)
        exact = build(part.problem, dataset, model)
        yield from self._optimum(record, part, dataset, exact)
        dtype = DTYPES[part.dtype]
        problem = exact if dtype is torch.float64 else build(part.problem, dataset.to("cpu", dtype), model)
        evaluator = Evaluator(problem, None if record.optimum is None else record.optimum.value)
        yield from self._start(record, problem, evaluator, part.dtype)
        known = stored_metrics(problem.metrics)
        for name, described in record.metrics.items():
            # Who turns a direction round turns a ranking round; what nobody describes is better the less it is.
            better = known.get(name, {}).get("better", "less")
            yield from compared(f"metrics.{name}.better", described["better"], better)
        points = self.store.solution(record.run_id)
        yield from encoding_mismatches(record, points, dataset, exact)
        for name in ITERATES:
            recorded = getattr(record.iterates, name)
            if recorded is None:
                continue
            if name not in points:
                yield Mismatch(f"solution of `{name}`", "scores", None)
                continue
            scores = evaluator.score(torch.from_numpy(points[name]).to(dtype), recorded.step or 0).as_dict()
            scores |= scores.pop("extra")
            for field, value in iterate_values(recorded).items():
                if field not in scores:
                    yield Mismatch(f"{name}.{field}", value, "no metric of this problem")
                yield from compared(f"{name}.{field}", value, scores.get(field, value), _TOLERANCES[part.dtype])

    def _start(self, record: Record, problem: Problem, evaluator: Evaluator, dtype: str) -> Iterator[Mismatch]:
        """Relative gaps are relative to the start, which is known without the method.

        Under constraints it may have been projected on the way to the solver.
        """
        curve = self.store.curve(record.run_id)
        if isinstance(problem.form, Constrained) or not curve.height:
            return
        start = problem.start(torch.Generator().manual_seed(record.seed)).to("cpu", DTYPES[dtype])
        value = evaluator.score(start, 0).objective
        yield from compared("curve: objective at the start", curve["objective"][0], value, _TOLERANCES[dtype])

    def _optimum(self, record: Record, part: ScoredPart, dataset: Dataset, exact: Problem) -> Iterator[Mismatch]:
        if record.optimum is None:
            return
        found = find_optimum(exact, instance_of(part, dataset, self.catalogue), self.catalogue, self.optima).optimum
        value = None if found is None else found.value
        # Both are certified to this much, so they may differ by both.
        yield from compared("optimum.value", record.optimum.value, value, 2.0 * RELATIVE_TOLERANCE)

    def rerun(self, record: Record) -> Verdict:
        """Do a run again as a whole, in a folder that is forgotten, and compare everything but the time."""
        try:
            refuse_more_than_there_is(stored_values(self.store.config(record.run_id)))
            with tempfile.TemporaryDirectory(prefix="drobench-rerun-") as folder:
                return repeated(record, self.store, self.catalogue, Path(folder), self.optima, self.datasets)
        except Exception as error:  # as above
            return Verdict(record, unverified=f"{type(error).__name__}: {error}")


def repeated(
    record: Record,
    store: ResultStore,
    catalogue: Catalogue,
    folder: Path,
    optima: Path,
    datasets: LastDataset | None = None,
    **options: Any,
) -> Verdict:
    """Compute a stored run again, into another folder, and compare.

    Args:
        record: The run.
        store: Where it is.
        catalogue: The plugins, among which its own must be.
        folder: The folder of results for the repetition, which is not the store's.
        optima: Where certified optima are kept.
        datasets: Who has loaded the data of the run before this one.
        options: For `run_cell`.
    """
    config = from_yaml(store.config(record.run_id), catalogue)
    config = replace(config, results=str(folder))
    changed = why_stale(record, code_of(config, catalogue, record.others.get("route") or ()))
    again = run_cell(config, catalogue, datasets=datasets, optima=optima, **options)
    reason = why_not_repeatable(record, stored_values(store.config(record.run_id)))
    if reason is not None:
        return Verdict(record, unverified=reason, changed=changed)
    curves = store.curve(record.run_id), ResultStore(folder).curve(again.run_id)
    return Verdict(record, tuple(differences(record, curves[0], again, curves[1])), changed=changed)
