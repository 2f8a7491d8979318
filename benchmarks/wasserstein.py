"""Wasserstein logistic regression: GCIVR against an interior-point method and, if asked for, against other packages.

    python -m benchmarks.wasserstein --sizes 1000 10000 100000 --features 50 [--packages]

Data: `synthetic`, ill-conditioned, seed 0, no intercept. Problem: l2 transport norm, radius 0.05, flip cost 1, no l2.

    GCIVR              the reduced form with its default continuation; the clock runs only in `init` and `step`, and the
                       exact risk F(x) is looked at once per pass, off the clock: seconds until F(x) - J* <= 1e-5
    cvxpy/Clarabel     the program of `exact_convex`, once at Clarabel's own tolerance (1e-8) and once as shipped
                       (1e-10, less where that fails); seconds of the whole call, building the program included
    dro, skwdro        `--packages`: each installed from PyPI into a virtual environment that is deleted afterwards

J* is the lowest value any method found, with the best lower bound from `drobench.reformulation.certificates`; the lines
below the table say how far it is above the bound, and whether that is small enough to call it certified.

Every method runs in a process of its own. Memory is the growth of the resident set above where it stands when the data
and all imports are there. One thread. Seconds are wall time, the least of three up to 10,000 rows; CPU seconds are next
to them because on a shared machine only those are comparable, and the ratios are theirs.
"""

import argparse
import ctypes
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

TARGET = 1e-5
RADIUS, FLIP_COST = 0.05, 1.0
SEED = 0
PASSES = 100.0
SPEED_GOAL, SPEED_ROWS = 10.0, 10_000
MEMORY_SLACK = 1.5
REPEATS, MOST_REPEATED_ROWS = 3, 10_000
TIME_LIMIT = 900.0
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
_REFERENCE, _GCIVR = "cvxpy/Clarabel, 1e-10", "GCIVR"


@dataclass(frozen=True)
class Outcome:
    """What one method did on one instance."""

    method: str
    rows: int
    seconds: float = math.nan
    cpu_seconds: float = math.nan
    value: float = math.nan
    """The exact risk of what it returned."""
    megabytes: float = math.nan
    bound: float = -math.inf
    """A lower bound on the optimum, if it came with one."""
    note: str = ""

    @property
    def failed(self) -> bool:
        """Whether there is no result."""
        return math.isnan(self.value)


class Meter:
    """Wall time, CPU time and growth of the resident set of a piece of work in this process."""

    def __init__(self) -> None:
        _trim()
        self.before = _resident("VmRSS")
        self.resettable = _reset_peak()
        self.began = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return what was used since the beginning."""
        wall, cpu = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        peak = _resident("VmHWM") if self.resettable else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"seconds": wall, "cpu_seconds": cpu, "megabytes": peak - self.before}


def _resident(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return math.nan


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _trim() -> None:
    """Give freed memory back, so that using it again counts."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return


def problem(rows: int, features: int) -> Any:
    """Return the instance."""
    from drobench.objective.predictor import ModelConfig
    from drobench.registry import load_catalogue

    dataset = load_catalogue().dataset("synthetic").entry
    entry = load_catalogue().problem("wasserstein_logistic").entry
    data = dataset.factory(dataset.config(rows=rows, features=features, seed=SEED))
    settings = entry.config(radius=RADIUS, flip_cost=FLIP_COST, norm="l2", l2=0.0)
    return entry.factory(settings, data, ModelConfig(intercept=False))


def _repeats(rows: int) -> int:
    return REPEATS if rows <= MOST_REPEATED_ROWS else 1


# Work in a process of its own: each of these returns the fields of an `Outcome`.


def run_conic(rows: int, features: int, tolerance: float) -> dict[str, Any]:
    """Solve the program of `exact_convex`."""
    import cvxpy  # noqa: F401  # loaded before the meter starts

    from drobench.objective.oracles.reference import ReferenceOracle
    from drobench.reformulation.certificates import lower_bound
    from drobench.solver import SingleProcess
    from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig

    form = problem(rows, features).form
    solver = ExactConvex(ExactConvexConfig(conic_tolerance=tolerance))
    start = form.margins.origin()
    readings, state = [], None
    for _ in range(_repeats(rows)):
        oracle = ReferenceOracle(form, SEED, start)
        meter = Meter()
        state = solver.step(solver.init(start, oracle, SingleProcess()), oracle, SingleProcess())
        readings.append(meter.read())
    assert state is not None
    bound = lower_bound(form, state.point, state.dual)
    return {**_least(readings), "value": float(form.value(state.point)), "bound": bound}


def run_gcivr(
    rows: int, features: int, optimum: float, step_scale: float, stage_passes: float, passes: float
) -> dict[str, Any]:
    """Run GCIVR through its continuation, as a run of `drobench` does, and note when the target is first met."""
    import torch

    from drobench.objective.composite import Composite
    from drobench.reformulation.reformulation import ReformulationConfig
    from drobench.reformulation.routes import find_route

    torch.set_num_threads(1)
    instance = problem(rows, features)
    route = find_route(instance.form, (Composite,), ReformulationConfig())
    start = route.lift(instance.start(torch.Generator().manual_seed(SEED)))
    best: dict[str, Any] = {}
    for _ in range(_repeats(rows)):
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
    import torch

    from drobench.objective.oracles.composite import CompositeOracle
    from drobench.reformulation.certificates import lower_bound
    from drobench.solver import SingleProcess
    from drobench_plugins.solvers.gcivr import Gcivr, GcivrConfig

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


def _least(readings: list[dict[str, float]]) -> dict[str, float]:
    """Return the least times, and the memory of the first time: later ones find memory that was not given back."""
    times = {name: min(reading[name] for reading in readings) for name in ("seconds", "cpu_seconds")}
    return {**times, "megabytes": readings[0]["megabytes"]}


# Other packages: these texts run under another interpreter, with `X` and `y` loaded and `Meter` defined.

_DRO = """
from dro.linear_model.wasserstein_dro import WassersteinDRO
def fit():
    model = WassersteinDRO(X.shape[1], "logistic", fit_intercept=False, solver="CLARABEL")
    model.update({"eps": RADIUS, "p": 2, "kappa": FLIP_COST})
    return model.fit(X, y)["theta"]
"""

# With labels it samples only for the squared l2 cost, and a flip cost near 1 makes its optimiser overflow: what can be
# run is its default, squared cost and certain labels, with the radius squared accordingly.
_SKWDRO_ENTROPIC = """
import torch
torch.set_num_threads(1)
from skwdro.linear_models import LogisticRegression
def fit():
    model = LogisticRegression(rho=RADIUS**2, fit_intercept=False, cost="t-NLC-2-2", random_state=0)
    return model.fit(X, y).coef_
"""

# The estimator's solver="dedicated" has a flip cost of 1000 written into it; the function behind it takes any.
_SKWDRO_EXACT = """
from skwdro.solvers.specific_solvers import WDROLogisticSpecificSolver
def fit():
    point, *_ = WDROLogisticSpecificSolver(rho=RADIUS, kappa=FLIP_COST, X=X, y=y, fit_intercept=False)
    return point
"""

_PACKAGES = {
    "dro": [("dro, WassersteinDRO", _DRO, "the same problem, textbook program")],
    "skwdro": [
        ("skwdro, entropic", _SKWDRO_ENTROPIC, "another problem: entropic, squared cost, no flips; its F(x) as it is"),
        ("skwdro, dedicated", _SKWDRO_EXACT, "the same problem, one constraint at a time"),
    ],
}


def measure_packages(sizes: list[int], features: int, folder: Path) -> list[Outcome]:
    """Install each package and let it solve every size; what cannot be done becomes a note."""
    outcomes = []
    for package, programs in _PACKAGES.items():
        interpreter, failure = _install(package, folder)
        for method, text, note in programs:
            for rows in sizes:
                if failure:
                    outcomes.append(Outcome(method, rows, note=f"not installed: {failure}"))
                else:
                    outcomes.append(_foreign(interpreter, method, text, note, rows, features, folder))
    return outcomes


def _install(package: str, folder: Path) -> tuple[Path, str]:
    place = folder / package
    interpreter = place / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, capture_output=True, text=True)
        command = [str(interpreter), "-m", "pip", "install", "--quiet", "--no-input", package]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.CalledProcessError as error:
        return interpreter, _last_line(error.stderr)
    except subprocess.TimeoutExpired:
        return interpreter, f"longer than {TIME_LIMIT:.0f} s"
    return interpreter, ""


def _foreign(interpreter: Path, method: str, text: str, note: str, rows: int, features: int, folder: Path) -> Outcome:
    import numpy as np
    import torch

    instance = problem(rows, features)
    signed = instance.form.margins.signed_rows.numpy()
    # Only y z matters, so any labels will do if the rows follow; a classifier wants to see both.
    labels = np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    data, answer, script = (folder / name for name in ("data.npz", "answer.json", "fit.py"))
    np.savez(data, X=signed * labels[:, None], y=labels)
    answer.unlink(missing_ok=True)
    script.write_text(_foreign_script(text, data, answer, _repeats(rows)))
    try:
        subprocess.run(
            [str(interpreter), str(script)],
            check=True,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            env={**os.environ, **_ONE_THREAD},
        )
    except subprocess.CalledProcessError as error:
        return Outcome(method, rows, note=f"failed: {_last_line(error.stderr)}")
    except subprocess.TimeoutExpired:
        return Outcome(method, rows, note=f"stopped after {TIME_LIMIT:.0f} s")
    found = json.loads(answer.read_text())
    point = torch.tensor(found.pop("point"), dtype=torch.float64)
    return Outcome(method, rows, value=float(instance.form.value(point)), note=note, **found)


def _foreign_script(text: str, data: Path, answer: Path, repeats: int) -> str:
    """Return a program with this module's own meter and nothing else of it."""
    import inspect

    parts = [inspect.getsource(part) for part in (Meter, _resident, _reset_peak, _trim, _least)]
    imports = "import ctypes, json, math, resource, time\nfrom pathlib import Path\nimport numpy as np\n"
    work = (
        f"RADIUS, FLIP_COST = {RADIUS}, {FLIP_COST}\n"
        f"loaded = np.load({str(data)!r})\nX, y = loaded['X'], loaded['y']\n{text}\n"
        "readings, point = [], None\n"
        f"for _ in range({repeats}):\n    meter = Meter()\n    point = fit()\n    readings.append(meter.read())\n"
        "point = [float(number) for number in np.ravel(point)]\n"
        f"Path({str(answer)!r}).write_text(json.dumps({{**_least(readings), 'point': point}}))\n"
    )
    return imports + "\n\n".join(parts) + "\n\n" + work


def _last_line(text: str | None) -> str:
    lines = [line for line in (text or "").splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1].strip()[:120] if lines else "no message"


# The whole.


def measure(sizes: list[int], features: int, packages: bool) -> list[Outcome]:
    """Return all outcomes; progress goes to standard error."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        others = measure_packages(sizes, features, folder) if packages else []
        for rows in sizes:
            reference = _here(_REFERENCE, rows, "conic", rows, features, 1e-10)
            common = _here("cvxpy/Clarabel, 1e-8", rows, "conic", rows, features, 1e-8)
            # GCIVR's clock stops at a gap to this; a wrong value would show as a gap below zero.
            solved = [outcome.value for outcome in (reference, common) if not outcome.failed]
            known = min(solved) if solved else _long_run(rows, features)
            outcomes += [*_gcivr(rows, features, known), common, reference]
            outcomes += [outcome for outcome in others if outcome.rows == rows]
    return outcomes


def _long_run(rows: int, features: int) -> float:
    """Return the value of a run five times as long: what is left where no reference could be had."""
    return _here(_GCIVR, rows, "gcivr", rows, features, -math.inf, 1.0, PASSES, 5 * PASSES).value


def _gcivr(rows: int, features: int, known: float) -> list[Outcome]:
    """Run with defaults; only if those do not meet the target, other settings, each reported."""
    found = [_here(_GCIVR, rows, "gcivr", rows, features, known, 1.0, PASSES / 5, PASSES)]
    for scale, stage_passes in ((2.0, 20.0), (4.0, 20.0), (1.0, 60.0)):
        if math.isfinite(found[-1].seconds):
            break
        name = f"{_GCIVR}, step_scale={scale:g}, stage_passes={stage_passes:g}"
        found.append(_here(name, rows, "gcivr", rows, features, known, scale, stage_passes, 5 * stage_passes))
    return found


def _here(method: str, rows: int, kind: str, *arguments: float) -> Outcome:
    """Run one method in a process of its own."""
    print(f"{method}, m = {rows} ...", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.wasserstein", "--one", kind, *(repr(number) for number in arguments)]
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=TIME_LIMIT, env={**os.environ, **_ONE_THREAD}
        )
    except subprocess.CalledProcessError as error:
        return Outcome(method, rows, note=f"failed: {_last_line(error.stderr)}")
    except subprocess.TimeoutExpired:
        return Outcome(method, rows, note=f"stopped after {TIME_LIMIT:.0f} s")
    outcome = Outcome(method, rows, **json.loads(done.stdout.splitlines()[-1]))
    print(f"  {outcome}", file=sys.stderr, flush=True)
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as aligned text, one block per size."""
    lines = [("m", "method", "seconds", "CPU s", "/ GCIVR", "final gap", "memory", "note")]
    for rows in dict.fromkeys(outcome.rows for outcome in outcomes):
        block = [outcome for outcome in outcomes if outcome.rows == rows]
        optimum, _ = certified(block)
        base = _base(block)
        for outcome in block:
            gap = outcome.value - optimum
            late = "" if outcome.failed or gap <= TARGET or outcome.method.startswith(_GCIVR) else "misses 1e-5; "
            lines.append(
                (
                    str(rows),
                    outcome.method,
                    _number(outcome.seconds, ".2f"),
                    _number(outcome.cpu_seconds, ".2f"),
                    _number(outcome.cpu_seconds / base, ".1f"),
                    _number(gap, ".1e"),
                    _number(outcome.megabytes, ".1f") + " MB",
                    late + outcome.note,
                )
            )
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    left = (1, 7)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def certified(block: list[Outcome]) -> tuple[float, float]:
    """Return the lowest value found on an instance and how far it is above the best lower bound."""
    best = min((outcome.value for outcome in block if not outcome.failed), default=math.nan)
    return best, best - max(outcome.bound for outcome in block)


def goals(outcomes: list[Outcome]) -> list[str]:
    """Return what is known of the optima, and whether the goals are met."""
    lines = []
    for rows in dict.fromkeys(outcome.rows for outcome in outcomes):
        best, above = certified([outcome for outcome in outcomes if outcome.rows == rows])
        trust = "certified" if above <= 0.1 * TARGET else "the lowest value found, not certified to the target"
        lines.append(f"J* at m = {rows}: {best:.9f}, at most {above:.1e} above the optimum ({trust})")
    speed = [outcome for outcome in outcomes if outcome.rows == SPEED_ROWS]
    common = next((outcome for outcome in speed if outcome.method == "cvxpy/Clarabel, 1e-8"), None)
    if common is not None:
        ratio = common.cpu_seconds / _base(speed)
        met = _met(ratio >= SPEED_GOAL)
        lines.append(f"goal, GCIVR at least {SPEED_GOAL:g}x faster than cvxpy at m = 1e4: {ratio:.1f}x, {met}")
    gcivr = sorted((outcome.rows, outcome.megabytes) for outcome in outcomes if outcome.method == _GCIVR)
    for (fewer, less), (more, much) in pairwise(gcivr):
        growth, allowed = much / max(less, 1.0), MEMORY_SLACK * more / fewer
        lines.append(
            f"goal, memory of GCIVR linear in m: {much:.1f} MB at {more} rows against {less:.1f} MB at {fewer}, "
            f"{_met(growth <= allowed)}"
        )
    return lines


def _base(block: list[Outcome]) -> float:
    """Return the CPU seconds of GCIVR: with its defaults, or with the first settings that met the target."""
    times = [outcome.cpu_seconds for outcome in block if outcome.method.startswith(_GCIVR)]
    return next((seconds for seconds in times if math.isfinite(seconds)), math.nan)


def _met(met: bool) -> str:
    return "met" if met else "NOT met"


def _number(number: float, form: str) -> str:
    return format(number, form) if math.isfinite(number) else "-"


def main() -> None:
    """Measure and print the table, or do one method's work."""
    parser = argparse.ArgumentParser(description="Wasserstein logistic regression, several methods.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--packages", action="store_true", help="also install and measure dro and skwdro")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        kind, rows, features, *rest = arguments.one
        runs: dict[str, Callable[..., dict[str, Any]]] = {"conic": run_conic, "gcivr": run_gcivr}
        print(json.dumps(runs[kind](int(rows), int(features), *(float(number) for number in rest))))
        return
    from benchmarks.side_by_side import machine, one_thread

    one_thread()
    outcomes = measure(arguments.sizes, arguments.features, arguments.packages)
    print(table(outcomes))
    print("\n".join(goals(outcomes)))
    print(machine())


if __name__ == "__main__":
    main()
