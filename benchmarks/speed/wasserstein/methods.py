"""Our two ways to solve an instance, each measured: they return the fields of an `Outcome`.

What a method loads is loaded before the meter starts.
"""

import math
import time
from typing import Any

import torch

from benchmarks.speed.wasserstein.meter import Meter, least_of
from benchmarks.speed.wasserstein.outcome import TARGET
from drobench.objective.composite import Composite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.oracles.reference import ReferenceOracle
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.certificates import lower_bound
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import load_catalogue
from drobench.solver import SingleProcess
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig

RADIUS, FLIP_COST = 0.05, 1.0
SEED = 0
REPEATS, MOST_REPEATED_ROWS = 3, 10_000


def problem(rows: int, features: int) -> Any:
    """Return the instance."""
    dataset = load_catalogue().dataset("synthetic").entry
    entry = load_catalogue().problem("wasserstein_logistic").entry
    data = dataset.factory(dataset.config(rows=rows, features=features, seed=SEED))
    settings = entry.config(radius=RADIUS, flip_cost=FLIP_COST, norm="l2", l2=0.0)
    return entry.factory(settings, data, ModelConfig(intercept=False))


def repeats_for(rows: int) -> int:
    """Return how often to measure an instance."""
    return REPEATS if rows <= MOST_REPEATED_ROWS else 1


def run_conic(rows: int, features: int, tolerance: float) -> dict[str, Any]:
    """Solve the program of `exact_convex`."""
    import cvxpy  # noqa: F401  # the solver would load it in its first step

    form = problem(rows, features).form
    solver = ExactConvex(ExactConvexConfig(conic_tolerance=tolerance))
    start = form.margins.origin()
    readings, state = [], None
    for _ in range(repeats_for(rows)):
        oracle = ReferenceOracle(form, SEED, start)
        meter = Meter()
        state = solver.step(solver.init(start, oracle, SingleProcess()), oracle, SingleProcess())
        readings.append(meter.read())
    assert state is not None
    bound = lower_bound(form, state.point, state.dual)
    return {**least_of(readings), "value": float(form.value(state.point)), "bound": bound}


def run_gcivr(
    rows: int, features: int, optimum: float, step_scale: float, stage_passes: float, passes: float
) -> dict[str, Any]:
    """Run GCIVR through its continuation, as a run of `drobench` does, and note when the target is first met."""
    torch.set_num_threads(1)
    instance = problem(rows, features)
    route = find_route(instance.form, (Composite,), ReformulationConfig())
    start = route.lift(instance.start(torch.Generator().manual_seed(SEED)))
    best: dict[str, Any] = {}
    for _ in range(repeats_for(rows)):
        meter = Meter()
        found = _continuation(instance.form, route, start, optimum, step_scale, stage_passes, passes)
        found["megabytes"] = meter.read()["megabytes"]
        if not best:
            best = found
        best["seconds"] = min(best["seconds"], found["seconds"])
        best["cpu_seconds"] = min(best["cpu_seconds"], found["cpu_seconds"])
    return best


def _continuation(
    form: Any, route: Any, start: Any, optimum: float, step_scale: float, stage_passes: float, passes: float
) -> dict[str, Any]:
    solver, communicator = Gcivr(GcivrConfig(step_scale=step_scale)), SingleProcess()
    wall = cpu = 0.0
    point, reached, value = start, None, math.inf
    oracle: CompositeOracle | None = None
    with torch.no_grad():
        for stage, sharper in enumerate(route.stages):
            before, oracle = oracle, CompositeOracle(sharper, SEED, start)
            if before is not None:
                oracle.load_state_dict(before.state_dict())
            end = passes if stage == len(route.stages) - 1 else min(passes, (stage + 1) * stage_passes)
            state = None
            while oracle.passes < end:
                due = min(math.floor(oracle.passes) + 1, end) * oracle.samples
                began = time.perf_counter(), time.process_time()
                if state is None:
                    state = solver.init(point, oracle, communicator)
                while oracle.counters.sample_calls < due:
                    state = solver.step(state, oracle, communicator)
                wall, cpu = wall + time.perf_counter() - began[0], cpu + time.process_time() - began[1]
                point = solver.solution(state)
                value = float(form.value(route.recover(point)))
                if reached is None and value - optimum <= TARGET:
                    reached = wall, cpu, oracle.passes, stage
    bound = lower_bound(form, route.recover(point))
    if reached is None:
        note = f"not in {passes:g} passes ({cpu:.1f} s)"
        return {"seconds": math.inf, "cpu_seconds": math.inf, "value": value, "bound": bound, "note": note}
    return {
        "seconds": reached[0],
        "cpu_seconds": reached[1],
        "value": value,
        "bound": bound,
        "note": f"{reached[2]:.0f} passes, width {reached[3] + 1} of {len(route.stages)}; all {passes:g}: {cpu:.1f} s",
    }
