"""How much memory GCIVR takes on a table that is mapped instead of loaded.

    python -m benchmarks.speed.memory [--rows 20000000] [--features 28] [--processes 1] [--passes 8] [OVERRIDE ...]
    python -m benchmarks.speed.memory --small

The table, noisy linear classification in float32, is written once, piece by piece, into a temporary folder (or into
`--folder`, where it stays and is used again). Then KL-robust logistic regression runs for real: `drobench.run` in a
fresh process, with refreshes on all rows and evaluations of all metrics. A watcher reads `RssAnon` of that process and
of all its children every few milliseconds: memory that belongs to the process alone. What is mapped from the file
counts as resident too, but the system takes it back whenever somebody else needs it.

The goal is 1 GB in each process.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.side_by_side import add_small, machine
from drobench.data.stored_table import MANIFEST, store_table

ROWS, FEATURES, PASSES = 20_000_000, 28, 8.0
SMALL_ROWS, SMALL_PASSES = 2_000, 1.0
GOAL = 1e9
SEED = 0
_AT_ONCE = 2**18
_INTERVAL = 0.01
_RUN = (
    "dataset=mapped",
    "dataset.standardize=false",
    "dataset.split=[1,0,0]",
    "problem=kl_classification",
    "solver=gcivr",
    "trainer.dtype=float32",
    "evaluation.every_passes=2",
)
_PROGRAM = """
import json, sys
from drobench import run
record = run(*sys.argv[1:])
last = record.iterates.last
print(json.dumps({
    "status": str(record.status), "reason": record.reason, "seconds": record.seconds.solver,
    "evaluation": record.seconds.evaluation, "passes": record.oracle.passes,
    "objective": last and last.objective, "error": last and last.train_error,
}))
"""


def write(folder: Path, rows: int, features: int) -> None:
    """Write Gaussian rows in float32 with labels from a random hyperplane and noise, in pieces."""
    store_table(
        folder,
        _draw(rows, features),
        rows=rows,
        columns=[f"x{number}" for number in range(1, features + 1)],
        classes=[-1, 1],
        dtype="float32",
    )


def _draw(rows: int, features: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.uint8]]]:
    generator = np.random.default_rng(SEED)
    weights = 3.0 * generator.standard_normal(features, dtype=np.float32) / math.sqrt(features)
    for first in range(0, rows, _AT_ONCE):
        count = min(_AT_ONCE, rows - first)
        piece = generator.standard_normal((count, features), dtype=np.float32)
        margins = piece @ weights + generator.standard_normal(count, dtype=np.float32)
        yield 0.5 * piece, (margins >= 0).astype(np.uint8)


def measure(words: list[str]) -> tuple[dict[str, Any], dict[int, int]]:
    """Run drobench in a fresh process; return what it found, and the peak of `RssAnon` of each of its processes."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([sys.executable, "-c", _PROGRAM, *words], stdout=output)
        peaks: dict[int, int] = {}
        while process.poll() is None:
            for identity in _family(process.pid):
                peaks[identity] = max(peaks.get(identity, 0), anonymous_bytes(identity))
            time.sleep(_INTERVAL)
        output.seek(0)
        text = output.read().decode()
    if process.returncode:
        raise SystemExit(f"the run ended with code {process.returncode}")
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    if found["objective"] is None:
        raise SystemExit(f"the run ended as {found['status']}: {found['reason']}")
    return found, peaks


def _family(parent: int) -> list[int]:
    """Return a process and all that descend from it."""
    found = [parent]
    for identity in found:
        for children in Path(f"/proc/{identity}/task").glob("*/children"):
            try:
                found += [int(word) for word in children.read_text().split()]
            except OSError:  # it has ended meanwhile
                continue
    return found


def anonymous_bytes(identity: int | str) -> int:
    """Return a process's `RssAnon`; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{identity}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)


def main() -> None:
    """Write the table where there is none, run, and print the peaks."""
    if not Path("/proc/self/status").exists():
        raise SystemExit("RssAnon is what Linux reports in /proc; there is none here")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--features", type=int, default=FEATURES)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--passes", type=float)
    parser.add_argument("--folder", type=Path, help="keep the table there, and use it if it is there")
    parser.add_argument("overrides", nargs="*", help="settings of the run, e.g. trainer.dtype=float64")
    add_small(parser)
    options = parser.parse_args()
    rows, passes = (SMALL_ROWS, SMALL_PASSES) if options.small else (ROWS, PASSES)
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name) / "table"
        if not (folder / MANIFEST).is_file():
            begin = time.perf_counter()
            write(folder, options.rows or rows, options.features)
            print(f"written in {time.perf_counter() - begin:.0f} s", flush=True)
        words = [
            *_RUN,
            f"dataset.path={folder}",
            f"budget.passes={options.passes or passes}",
            f"results={name}/results",
        ]
        if options.processes > 1:
            words += ["trainer=ddp_cpu", f"trainer.devices={options.processes}", "trainer.dtype=float32"]
        found, peaks = measure([*words, *options.overrides])
        size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"table {size / 1e9:.2f} GB; {found['status']} {found['reason'] or ''}")
    print(f"objective {found['objective']:.6f}, training error {found['error']:.4f}")
    print(
        f"{found['passes']:.1f} passes in {found['seconds']:.1f} s, {found['seconds'] / found['passes']:.2f} s a pass; "
        f"evaluations {found['evaluation']:.1f} s"
    )
    for identity, peak in sorted(peaks.items()):
        if peak > 1e8:  # not the small helpers
            print(f"process {identity}: peak RssAnon {peak / 1e6:.0f} MB{'' if peak < GOAL else '  ABOVE 1 GB'}")
    print(machine())


if __name__ == "__main__":
    main()
