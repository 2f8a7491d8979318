"""From what a run did to what is kept of it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars

from drobench.app.assemble import Assembly
from drobench.app.config import RunConfig, plain
from drobench.app.environment import environment, peak_memory
from drobench.data.dataset import Dataset
from drobench.registry import Catalogue
from drobench.results.record import (
    Communication,
    Component,
    DatasetComponent,
    Iterate,
    Iterates,
    Memory,
    OracleCounts,
    Record,
    Seconds,
    Status,
)
from drobench.training.solver_module import SolverModule

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Draft:
    """What is known about a run before it has done anything."""

    run_id: str
    config: RunConfig
    catalogue: Catalogue
    started_at: str
    dataset: Dataset | None

    def record(self, status: Status, reason: str | None, **found: Any) -> Record:
        """Return the record of this run with what was found."""
        values = plain(self.config)
        return Record(
            run_id=self.run_id,
            status=status,
            reason=reason,
            seed=self.config.seed,
            started_at=self.started_at,
            solver=Component(**self._component("solver", values), others=self._claims()),
            problem=Component(**self._component("problem", values)),
            dataset=DatasetComponent(
                **self._component("dataset", values),
                sha256=None if self.dataset is None else self.dataset.sha256,
                rows=None if self.dataset is None else self.dataset.rows,
                twin=self.dataset is not None and self.dataset.twin,
            ),
            model=values["model"],
            budget=values["budget"],
            trainer=values["trainer"],
            reformulation=values["reformulation"],
            environment=environment(self.config.trainer.threads, self.config.trainer.processes),
            memory=Memory(peak_bytes=peak_memory()),
            **found,
        )

    def _claims(self) -> dict[str, Any]:
        """Return what the solver's entry says of the method: the rate it claims, and whether it is a reconstruction."""
        entry = self.catalogue.solver(self.config.solver.name).entry
        claims = {"rate": entry.rate, "reconstructed": entry.reconstructed or None}
        return {name: claim for name, claim in claims.items() if claim is not None}

    def _component(self, kind: str, values: dict[str, Any]) -> dict[str, Any]:
        settings = dict(values[kind])
        name = settings.pop("name")
        found = getattr(self.catalogue, kind)(name)
        return {"name": name, "config": settings, "distribution": found.distribution, "version": found.version}


def now() -> str:
    """Return the time as it stands in records."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def finished_record(draft: Draft, assembly: Assembly, module: SolverModule, setup: float, total: float) -> Record:
    """Return the record of a run that came to its end, whatever end that was."""
    assert module.verdict is not None
    counts, progress = module.counts(), module.progress()
    iterates: dict[str, Any] = {name: Iterate(**scores.as_dict()) for name, (scores, _) in module.final.items()}
    return draft.record(
        module.verdict.status,
        module.verdict.reason,
        iterates=Iterates(**iterates),
        optimum=assembly.reference.optimum,
        optimum_reason=assembly.reference.reason,
        oracle=OracleCounts(
            inner_values=counts["inner_values"],
            inner_jacobians=counts["inner_jacobians"],
            loss_gradients=counts["loss_gradients"],
            constraint_checks=counts["constraint_checks"],
            projections=counts["projections"],
            passes=progress.passes,
        ),
        communication=Communication(rounds=counts["communication_rounds"], bytes=counts["communication_bytes"]),
        seconds=Seconds(
            solver=progress.seconds, evaluation=module.clock.seconds["evaluation"], setup=setup, total=total
        ),
        others={
            "route": assembly.route.names,
            # Which iterate `last` is: `solver.output=random` makes it a random one.
            "output": getattr(draft.config.solver, "output", "last"),
        },
    )


def curve_frame(module: SolverModule) -> polars.DataFrame:
    """Return one row per evaluation."""
    return polars.DataFrame(module.curve, infer_schema_length=None)


def solution_arrays(module: SolverModule, dataset: Dataset) -> dict[str, Array]:
    """Return the scored points, and the scaling of the features they expect."""
    points = {name: point.detach().cpu().numpy() for name, (_, point) in module.final.items()}
    return {
        **points,
        "feature_mean": dataset.feature_mean.numpy(),
        "feature_scale": dataset.feature_scale.numpy(),
        "classes": np.array(dataset.classes),
    }
