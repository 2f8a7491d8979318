"""Plausible runs in any number, for the tests of the report."""

import dataclasses
from typing import Any

import numpy
import polars
from result_samples import make_record

from drobench.results.record import Iterate, Iterates, Record, Status

Samples = tuple[list[Record], dict[str, polars.DataFrame]]


def make_runs(
    solvers: int = 3,
    seeds: int = 3,
    problems: int = 1,
    points: int = 40,
    *,
    constrained: bool = False,
    certified: bool = True,
    names: list[str] | None = None,
    failing: dict[tuple[int, int], Status] | None = None,
    bytes_per_point: int = 0,
) -> Samples:
    """Runs of every solver on every problem with every seed; solver 0 is the quickest.

    Args:
        solvers: Number of solvers.
        seeds: Number of seeds.
        problems: Number of problems.
        points: Evaluations per run.
        constrained: Whether there are violations, and points that are infeasible.
        certified: Whether the optimum is known.
        names: Names of the solvers; `solver_0`, ... if not given.
        failing: How the run of a solver and seed fails, halfway.
        bytes_per_point: What is exchanged between evaluations.
    """
    records: list[Record] = []
    curves: dict[str, polars.DataFrame] = {}
    for problem in range(problems):
        for solver in range(solvers):
            for seed in range(seeds):
                status = (failing or {}).get((solver, seed), Status.BUDGET_SPENT)
                failed = status is not Status.BUDGET_SPENT
                curve = _curve(problem, solver, seed, points // 2 if failed else points, constrained, certified)
                curve = curve.with_columns(
                    communication_bytes=polars.Series(numpy.arange(curve.height) * bytes_per_point)
                )
                record = make_record(
                    names[solver] if names else f"solver_{solver}",
                    seed,
                    status=status,
                    problem=f"{'fair' if constrained else 'problem'}_{problem}",
                    config={"step_size": 0.1 / (solver + 1), "batch": 32},
                    optimum=0.2 if certified and not constrained else None,
                    started_at=f"2026-03-{1 + problem % 28:02d}T10:00:{seed % 60:02d}+00:00",
                    reason="the objective grew beyond 1e6" if failed else "passes 10 of 10",
                )
                iterates = Iterates() if failed else _iterates(curve, constrained)
                record = dataclasses.replace(record, iterates=iterates)
                records.append(record)
                curves[record.run_id] = curve
    return records, curves


def worsened(samples: Samples, solver: str, objective: float = 12.5) -> Samples:
    """The same runs, but those of one solver end at another objective, as records of older versions have it."""
    records, curves = samples
    return [_ending_at(record, objective) if record.solver.name == solver else record for record in records], curves


def _ending_at(record: Record, objective: float) -> Record:
    assert record.iterates.last is not None
    gap = None if record.optimum is None else objective - record.optimum.value
    last = dataclasses.replace(record.iterates.last, objective=objective, gap=gap)
    return dataclasses.replace(record, iterates=dataclasses.replace(record.iterates, last=last))


def _curve(problem: int, solver: int, seed: int, points: int, constrained: bool, certified: bool) -> polars.DataFrame:
    random = numpy.random.default_rng([problem, solver, seed])
    step = numpy.arange(points)
    decay = numpy.exp(-step * 8 / (points * (1 + solver))) * numpy.exp(0.1 * random.standard_normal(points))
    decay[:1] = 1.0
    gap = 0.5 * decay
    columns: dict[str, Any] = {
        "step": step * 10,
        "passes": step * 1.0,
        "oracle_calls": step * 100 * (problem + 1),
        "solver_seconds": step * 0.01 * (1 + 0.1 * random.random()),
        "objective": 0.2 + gap,
        "gap": gap if certified and not constrained else [None] * points,
        "stationarity": gap**2,
        "train_error": 0.1 + 0.3 * decay,
        "validation_error": 0.12 + 0.3 * decay,
        "test_error": 0.12 + 0.3 * decay,
        "feasible": numpy.ones(points, dtype=bool),
    }
    if constrained:
        violation = 0.2 * decay - 0.02 * (solver + 1)
        columns["feasible"] = violation <= 0
        columns |= {f"{split}_max_violation": violation for split in ("train", "validation", "test")}
        columns |= {
            f"{split}_error": 0.1 + 0.02 * (solver + 1) + 0.2 * decay for split in ("train", "validation", "test")
        }
    return polars.DataFrame(columns)


def _iterates(curve: polars.DataFrame, constrained: bool) -> Iterates:
    def scored(place: int) -> Iterate:
        row = curve.row(place, named=True)
        known = {name: value for name, value in row.items() if name in Iterate.__dataclass_fields__}
        return Iterate(**known)

    if not constrained:
        return Iterates(last=scored(-1))
    feasible = [place for place, kept in enumerate(curve["feasible"]) if kept]
    best = scored(feasible[len(feasible) // 2]) if feasible else None
    return Iterates(last=scored(-1), average=scored(curve.height // 2), best_feasible=best)
