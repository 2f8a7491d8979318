"""From what a run did to what is kept of it."""

from typing import Any

import numpy as np
import polars

from drobench.app.assemble import Assembly
from drobench.app.config import plain
from drobench.app.environment import environment, peak_memory
from drobench.app.prepare import Prepared
from drobench.app.solution import written_encoder
from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError
from drobench.results.contents import is_of_numbers
from drobench.results.metric import stored_metrics
from drobench.results.outcome import outcome_of, scored_start
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


def record_of(prepared: Prepared, status: Status, reason: str | None, **found: Any) -> Record:
    """Return the record of a run, with what was found, which for one that came to nothing is nothing."""
    config, dataset = prepared.config, prepared.dataset
    values = plain(config)
    code = prepared.code_along(found.get("others", {}).get("route"))
    return Record(
        run_id=prepared.run_id,
        status=status,
        reason=reason,
        seed=config.seed,
        started_at=prepared.started_at,
        solver=Component(**_component(prepared, "solver", values), others=_claims(prepared)),
        problem=Component(**_component(prepared, "problem", values)),
        dataset=DatasetComponent(
            **_component(prepared, "dataset", values),
            sha256=None if dataset is None else dataset.sha256,
            rows=None if dataset is None else dataset.rows,
            twin=dataset is not None and dataset.twin,
        ),
        model=values["model"],
        budget=values["budget"],
        trainer=values["trainer"],
        reformulation=values["reformulation"],
        environment=environment(config.trainer.threads, config.trainer.processes),
        memory=Memory(peak_bytes=peak_memory()),
        asked=prepared.asked,
        code=code.distributions,
        code_parts=code.parts,
        **found,
    )


def _claims(prepared: Prepared) -> dict[str, Any]:
    """Return what the solver's entry says of the method: the rate it claims, and whether it is a reconstruction."""
    entry = prepared.catalogue.solver(prepared.config.solver.name).entry
    claims = {"rate": entry.rate, "reconstructed": entry.reconstructed or None}
    return {name: claim for name, claim in claims.items() if claim is not None}


def _component(prepared: Prepared, kind: str, values: dict[str, Any]) -> dict[str, Any]:
    settings = dict(values[kind])
    name = settings.pop("name")
    found = getattr(prepared.catalogue, kind)(name)
    return {"name": name, "config": settings, "distribution": found.distribution, "version": found.version}


def finished_record(prepared: Prepared, assembly: Assembly, module: SolverModule, setup: float, total: float) -> Record:
    """Return the record of a run that came to its end, whatever end that was."""
    assert module.verdict is not None
    counts, usage = module.counts(), module.usage()
    iterates: dict[str, Any] = {name: Iterate(**scores.as_dict()) for name, (scores, _) in module.final.items()}
    return record_of(
        prepared,
        module.verdict.status,
        module.verdict.reason,
        outcome=outcome_of(
            module.verdict.status, scored_start(module.curve[0]), iterates["last"], assembly.reference.optimum
        ),
        iterates=Iterates(**iterates),
        metrics=stored_metrics(assembly.problem.metrics),
        optimum=assembly.reference.optimum,
        optimum_reason=assembly.reference.reason,
        oracle=OracleCounts(
            inner_values=counts["inner_values"],
            inner_jacobians=counts["inner_jacobians"],
            loss_gradients=counts["loss_gradients"],
            constraint_checks=counts["constraint_checks"],
            projections=counts["projections"],
            hessian_rows=counts["hessian_rows"],
            hessian_products=counts["hessian_products"],
            passes=usage.passes,
        ),
        communication=Communication(rounds=counts["communication_rounds"], bytes=counts["communication_bytes"]),
        seconds=Seconds(solver=usage.seconds, evaluation=module.clock.seconds["evaluation"], setup=setup, total=total),
        others={
            "route": assembly.route.names,
            # Which iterate `last` is: `solver.output=random` makes it a random one.
            "output": getattr(prepared.config.solver, "output", "last"),
            "link": assembly.problem.link,
            "data_notes": list(assembly.dataset.notes),
        },
    )


def curve_frame(module: SolverModule) -> polars.DataFrame:
    """Return one row per evaluation.

    Raises:
        DrobenchError: A problem has scored a point with something that is no number.
    """
    curve = polars.DataFrame(module.curve, infer_schema_length=None)
    for name, kind in curve.schema.items():
        if not is_of_numbers(kind):
            raise DrobenchError(f"The metric {name!r} must be a number at every evaluation; found {kind}.")
    return curve


def solution_arrays(module: SolverModule, dataset: Dataset) -> dict[str, Array]:
    """Return the scored points, and what makes of raw rows the features that they expect."""
    points = {name: point.detach().cpu().numpy() for name, (_, point) in module.final.items()}
    return {
        **points,
        "feature_mean": dataset.feature_mean.numpy(),
        "feature_scale": dataset.feature_scale.numpy(),
        "classes": np.array(dataset.classes),
        **({"shape": np.array(dataset.shape)} if dataset.shape else {}),
        **({} if dataset.encoder is None else {"encoder": written_encoder(dataset.encoder)}),
    }
