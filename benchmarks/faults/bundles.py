"""Bundles that were damaged, cut, exchanged or forged on the way.

Whatever was done to a bundle, `verify`, `merge` and everything that shows the merged runs must answer with a verdict or
a message, within bounded memory: `unanswered` returns what was answered otherwise, with the way to draw it again.
"""

import contextlib
import io
import resource
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from benchmarks.faults.bundle_mutations import Mutator
from benchmarks.faults.forking import in_fresh_process
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.small import SMALL
from drobench import run
from drobench.app.cli import main
from drobench.errors import DrobenchError
from drobench.results.bundle import unpack
from drobench.results.merge import merge
from drobench.results.store import ResultStore

SPLIT = "dataset.split=[0.6,0.2,0.2]"
MOST_MEMORY = 1 << 30
"""By how many bytes the process may grow."""


def look(count: int, seed: int) -> Outcome:
    """Try so many mutations."""
    return in_fresh_process(_look, count, seed)


def _look(count: int, seed: int) -> Outcome:
    sys.argv = ["drobench"]
    with tempfile.TemporaryDirectory(prefix="drobench-faults-") as here, contextlib.chdir(here):
        return Outcome(count, unanswered(seed, count, Path(here)))


def make_bundle(folder: Path) -> Path:
    """Pack two small runs, one with a certified optimum, and return the bundle."""
    results = folder / "results"
    run("solver=gcivr", *SMALL, SPLIT, results=str(results))
    run("solver=unconstrained", "model=mlp", "model.hidden=[2]", *SMALL, SPLIT, results=str(results))
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(["pack", str(results), "-o", str(folder / "bundle.zip")])
    return folder / "bundle.zip"


def put(bundle: Path, folder: Path) -> None:
    """Do with a bundle what can be done with one; whatever comes out of here is a fault."""
    root, target = folder / "unpacked", folder / "merged"
    root.mkdir()
    with contextlib.suppress(DrobenchError):
        unpack(bundle, root)
        store = ResultStore(root)
        store.records()
        merge(store, ResultStore(target))
    _command("verify", bundle)
    _command("merge", bundle, "--results", folder / "again")
    if any(target.glob("*/record.json")):
        _command("pack", target, "-o", folder / "packed.zip")
        _command("report", "--results", target, "--output", folder / "report.html")
        for kind in ("table", "csv", "markdown", "json"):
            _command("leaderboard", "--results", target, "--format", kind)
        for record in target.glob("*/record.json"):
            _command("show", record.parent.name, "--results", target)


def _command(*words: object) -> None:
    sink = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), contextlib.suppress(SystemExit):
        main([str(word) for word in words])
    sink.flush()
    printed = sink.buffer.getvalue()  # type: ignore[attr-defined]
    assert b"\x1b" not in printed, printed[:500]
    assert b"Traceback" not in printed, printed[:2000]


def unanswered(seed: int, count: int, folder: Path) -> list[str]:
    """Return every mutation that was answered with something else than a verdict or a message.

    Args:
        seed: Of the draws.
        count: How many.
        folder: An empty one to work in.
    """
    bundle = make_bundle(folder)
    found = []
    for number, (done, content) in enumerate(Mutator(bundle, seed).mutations(count)):
        before = _memory()
        place = folder / str(number)
        place.mkdir()
        (place / "bundle.zip").write_bytes(content)
        what = f"seed {seed}, mutation {number} ({done})"
        try:
            put(place / "bundle.zip", place)
        except BaseException:  # also what polars calls a panic; the faults that are looked for
            found.append(f"{what}\n{traceback.format_exc()[-2500:]}")
        if _memory() - before > MOST_MEMORY:
            found.append(f"{what} took {(_memory() - before) >> 20} MiB")
        shutil.rmtree(place)
    return found


def _memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
