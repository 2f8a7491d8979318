"""DistGCIVR measured on 1 and 2 processes, and a cost model of up to 1024: a table and a picture."""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.drawing import pyplot
from benchmarks.speed.scaling.model import CostModel, fit, printed_speed_up
from benchmarks.speed.side_by_side import add_small, machine, one_thread, repeats

PROCESSES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MULTIPLES = (1, 4, 16)
# The case that the goal is about: rows, features, batch in multiples of sqrt(rows), least speed-up on two processes.
GOAL = (1_000_000, 100, 16, 1.4)
SMALL_ROWS = 4_000
CONDITION = 100.0


def main() -> None:
    """Do all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, help=f"rows for 10 and 100 features ({GOAL[0]:,}); a tenth for 1000")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--latency", type=float, metavar="MICROSECONDS", help="of another network than this machine's")
    parser.add_argument("--bandwidth", type=float, metavar="GB_PER_SECOND", help="of another network")
    add_small(parser)
    arguments = parser.parse_args()
    rows, times = arguments.rows or (SMALL_ROWS if arguments.small else GOAL[0]), repeats(arguments.small)
    sizes = ((rows, 100), (rows, 10), (rows // 10, 1000))
    cases = [(count, features, multiple * math.isqrt(count)) for count, features in sizes for multiple in MULTIPLES]
    alone, together = (measured(processes, cases, times) for processes in (1, 2))
    model = fit(alone["epochs"], together["exchanges"])
    print(measured_table(alone, together, model))
    if arguments.latency is not None:
        model = replace(model, latency=arguments.latency * 1e-6)
    if arguments.bandwidth is not None:
        model = replace(model, per_number=8.0 / (arguments.bandwidth * 1e9))
    print(f"\n{model_lines(model)}")
    print(f"\n{predicted_table(model, rows)}")
    one_thread()
    print(f"\nleast of {times}, one thread a process; {machine()}")
    if arguments.picture is not None:
        draw(model, alone, together, rows, arguments.picture)
        print(f"drawn: {arguments.picture}")


def measured(processes: int, cases: list[tuple[int, int, int]], times: int) -> Any:
    """Return what so many processes measured."""
    with tempfile.TemporaryDirectory(prefix="drobench-scaling-") as folder:
        output = Path(folder) / "found.json"
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        words = [",".join(map(str, case)) for case in cases]
        rank = ["-m", "benchmarks.speed.scaling.rank", str(output), str(times), *words]
        command = [*launcher, "--nproc-per-node", str(processes), *rank]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        return json.loads(output.read_text())


def _epoch(case: dict[str, float]) -> float:
    """Return the seconds of an epoch of `rows / batch` steps, the first of which is the refresh."""
    return case["refresh"] + (case["rows"] / case["batch"] - 1.0) * case["step"]


def measured_table(alone: Any, together: Any, model: CostModel) -> str:
    """Return one line per case: both times, the speed-up, and what the model says."""
    lines = [f"{'rows':>9} {'d':>5} {'S':>6}  {'1 process':>10} {'2 processes':>11} {'speed-up':>9} {'model':>6}  goal"]
    for one, two in zip(alone["epochs"], together["epochs"], strict=True):
        rows, features, batch = one["rows"], one["features"], one["batch"]
        ratio = _epoch(one) / _epoch(two)
        goal = ""
        if (rows, features, batch) == (GOAL[0], GOAL[1], GOAL[2] * math.isqrt(GOAL[0])):
            goal = f">= {GOAL[3]}: {'met' if ratio >= GOAL[3] else 'NOT met'}"
        lines.append(
            f"{rows:>9} {features:>5} {batch:>6}  {_epoch(one):>8.3f} s {_epoch(two):>9.3f} s {ratio:>9.2f} "
            f"{model.speed_up(2, rows, features, batch):>6.2f}  {goal}"
        )
    for exchange in together["exchanges"]:
        numbers, seconds = exchange["numbers"], exchange["seconds"]
        lines.append(
            f"all-reduce of {numbers} numbers: {seconds * 1e3:.3f} ms, by the model "
            f"{model.exchange(2, numbers) * 1e3:.3f} ms"
        )
    return "\n".join(lines)


def model_lines(model: CostModel) -> str:
    """Return the fitted costs in words."""
    return "\n".join(
        (
            f"refresh   {model.refresh_row * 1e9:.2f} ns a row + {model.refresh_entry * 1e9:.3f} ns an entry",
            f"step      {model.step * 1e6:.0f} us + {model.step_row * 1e9:.1f} ns a row + "
            f"{model.step_entry * 1e9:.3f} ns an entry",
            f"exchange  {model.latency * 1e6:.0f} us x log2(p) + {model.per_number * 1e9:.2f} ns a number",
        )
    )


def predicted_table(model: CostModel, rows: int) -> str:
    """Return speed-up and efficiency by number of processes, beside what the paper's formula amounts to."""
    columns = [(features, times) for features in (10, 100, 1000, 10_000) for times in (1, 16)]
    names = [f"d={features} S={'' if times == 1 else times}√m" for features, times in columns]
    widths = [max(len(name), 14) for name in names]
    heading = "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True))
    lines = [
        f"predicted epoch at m = {rows}: seconds (efficiency); printed: the paper's m + m/p + kappa sqrt(m), kappa "
        f"{CONDITION:g}, as a speed-up",
        f"{'p':>5}  {heading}  printed",
    ]
    for processes in PROCESSES:
        cells = []
        for (features, times), width in zip(columns, widths, strict=True):
            batch = times * math.isqrt(rows)
            seconds = model.epoch(processes, rows, features, batch)
            efficiency = model.speed_up(processes, rows, features, batch) / processes
            cells.append(f"{seconds:.3f} ({efficiency:.0%})".rjust(width))
        lines.append(f"{processes:>5}  {'  '.join(cells)}  {printed_speed_up(processes, rows, CONDITION):.2f}")
    return "\n".join(lines)


def draw(model: CostModel, alone: Any, together: Any, rows: int, path: Path) -> None:
    """Draw the speed-up against the number of processes, with the measured points on it."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), sharey=True, layout="constrained")
    colours = ("#0072B2", "#D55E00", "#009E73")
    for axis, features in zip(axes, (10, 100, 1000), strict=True):
        size = rows // 10 if features == 1000 else rows
        for times, colour, marker in zip(MULTIPLES, colours, "osD", strict=True):
            batch = times * math.isqrt(size)
            line = [model.speed_up(processes, size, features, batch) for processes in PROCESSES]
            axis.plot(PROCESSES, line, color=colour, label=f"S = {'' if times == 1 else times}√m, predicted")
            points = [
                _epoch(one) / _epoch(two)
                for one, two in zip(alone["epochs"], together["epochs"], strict=True)
                if (one["features"], one["batch"]) == (features, batch)
            ]
            axis.plot([1, 2], [1.0, *points], marker, color=colour, markersize=7, label="measured")
        axis.plot(PROCESSES, PROCESSES, ":", color="black", label="linear")
        printed = [printed_speed_up(processes, size, CONDITION) for processes in PROCESSES]
        axis.plot(PROCESSES, printed, "--", color="grey", label="m + m/p + κ√m, as printed")
        axis.set(xscale="log", yscale="log", xlabel="processes", title=f"m = {size:,}, d = {features}")
        axis.set_xscale("log", base=2)
        axis.set_ylim(0.05, 100)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("speed-up of an epoch")
    axes[0].legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
