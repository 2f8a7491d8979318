"""One cell: compute it here, or start its processes with torch's launcher; either way exactly one record comes out.

As a program, `python -m drobench.app.one_run RESOLVED.yaml` is one rank of a cell with several processes. The ranks get
the resolved configuration of their cell and nothing else, which is why sweeps and several processes go together.
"""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import torch

from drobench.app.assemble import assemble, load_dataset
from drobench.app.config import RunConfig, from_yaml, register, to_yaml
from drobench.app.identity import identify
from drobench.app.ranks import RANK_GRACE_SECONDS, end_with_parent
from drobench.app.recording import Draft, curve_frame, finished_record, now, solution_arrays
from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError
from drobench.reformulation.routes import NoRouteError
from drobench.registry import Catalogue, NeedsNotMet, load_catalogue
from drobench.registry.time_limit import TimeLimitExpired, time_limit
from drobench.results.record import Record, Status
from drobench.results.store import ResultStore
from drobench.training.trainer import check_devices, train

# A combination that makes no sense, as opposed to a run that went wrong.
REFUSALS = (NeedsNotMet, NoRouteError)
_RANK_VARIABLE = "RANK"
_POLL_SECONDS = 0.05
# For the launcher, which ends itself after its ranks; a sweep gives its workers a little more than this.
_GRACE_SECONDS = RANK_GRACE_SECONDS + 7.0


class RankFailed(DrobenchError):  # noqa: N818 - reads as what it says
    """One of the processes of a run failed."""


def run_cell(
    config: RunConfig,
    catalogue: Catalogue,
    *,
    again: bool = False,
    keep_refusals: bool = False,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Record:
    """Return the record of this run: the stored one if it is finished, else a new one.

    Args:
        config: The run.
        catalogue: The plugins.
        again: Compute it even if a finished record is there.
        keep_refusals: Record a combination that makes no sense as skipped instead of raising.
        report: Called with every evaluation.
    """
    store = ResultStore(Path(config.results))
    store.prepare()
    refusal: Exception | None = None
    try:
        catalogue.check_fit(config.problem.name, config.dataset.name)
        dataset = load_dataset(config, catalogue)
        catalogue.check_fit(config.problem.name, config.dataset.name, dataset.provides)
        check_devices(config.trainer)
    except Exception as error:  # a dataset may raise anything, and in a sweep it is the result of this cell
        if not keep_refusals:
            raise
        refusal = error
    draft = draft_of(config, catalogue)
    with store.lock(draft.run_id):
        if not again and store.finished(draft.run_id):
            return store.read(draft.run_id)
        if refusal is not None:
            status = Status.SKIPPED if isinstance(refusal, REFUSALS) else Status.FAILED
            return _keep(store, draft.record(status, str(refusal)), config)
        try:
            return _compute_or_launch(store, draft, report)
        except REFUSALS as error:
            if not keep_refusals:
                raise
            return _keep(store, draft.record(Status.SKIPPED, str(error)), config)
        except TimeLimitExpired:
            reason = f"timed out after {config.timeout:g} s"
        except RankFailed as error:
            reason = str(error)
        except Exception as error:  # whatever a solver raises is the result of this cell, and of no other
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
        return _keep(store, draft.record(Status.FAILED, reason), config)


def fail_cell(config: RunConfig, catalogue: Catalogue, reason: str) -> Record:
    """Record a cell whose process could not do it itself."""
    store = ResultStore(Path(config.results))
    draft = draft_of(config, catalogue)
    with store.lock(draft.run_id):
        if store.finished(draft.run_id):
            return store.read(draft.run_id)
        return _keep(store, draft.record(Status.FAILED, reason), config)


def draft_of(config: RunConfig, catalogue: Catalogue) -> Draft:
    """Return the draft of a run; one whose data cannot be used has the id of a run that never saw data."""
    dataset = usable_dataset(config, catalogue)
    run_id = identify(config, catalogue, "" if dataset is None else dataset.sha256)
    return Draft(run_id, config, catalogue, now(), dataset)


def usable_dataset(config: RunConfig, catalogue: Catalogue) -> Dataset | None:
    """Return the run's dataset, or nothing where it cannot be loaded or does not fit; the run itself will say why."""
    try:
        catalogue.check_fit(config.problem.name, config.dataset.name)
        dataset = load_dataset(config, catalogue)
        catalogue.check_fit(config.problem.name, config.dataset.name, dataset.provides)
    except Exception:  # whatever a dataset raises is reported by the run that needs it
        return None
    return dataset


def _keep(store: ResultStore, record: Record, config: RunConfig) -> Record:
    """Store a record without curve and solution; a finished result is never replaced by a failure to repeat it."""
    if store.finished(record.run_id):
        return record
    store.write(record, polars.DataFrame(), {}, to_yaml(config))
    return record


def _compute_or_launch(store: ResultStore, draft: Draft, report: Callable[[dict[str, Any]], None] | None) -> Record:
    if draft.config.trainer.distributed and _RANK_VARIABLE not in os.environ:
        return _launch(store, draft)
    with time_limit(draft.config.timeout or 0):
        return _compute(store, draft, report)


def _compute(store: ResultStore, draft: Draft, report: Callable[[dict[str, Any]], None] | None) -> Record:
    """Compute the run in this process (or this rank's part of it) and write the record on rank 0."""
    begin = time.perf_counter()
    config = draft.config
    threads = torch.get_num_threads()
    torch.set_num_threads(config.trainer.threads)
    folder = _work_folder(store, draft.run_id)
    try:
        assembly = assemble(config, draft.catalogue, store.root / ".optima")
        setup = time.perf_counter() - begin
        module = train(
            assembly.task, config.trainer, config.logger, folder, store.root / ".logs" / draft.run_id, report
        )
    finally:
        torch.set_num_threads(threads)
    if module.verdict is None:
        # Lightning turns Ctrl-C into a quiet end; here it means that there is nothing to record.
        raise KeyboardInterrupt
    record = finished_record(draft, assembly, module, setup, time.perf_counter() - begin)
    if module.trainer.is_global_zero:
        store.write(record, curve_frame(module), solution_arrays(module, assembly.dataset), to_yaml(config))
        shutil.rmtree(folder, ignore_errors=True)
    return record


def _work_folder(store: ResultStore, run_id: str) -> Path:
    folder = store.root / ".work" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _launch(store: ResultStore, draft: Draft) -> Record:
    """Start the ranks with torch's launcher and wait for them."""
    config = draft.config
    if config.trainer.nodes > 1:
        raise DrobenchError(
            f"trainer.nodes={config.trainer.nodes}: start `torchrun --nnodes {config.trainer.nodes} --nproc-per-node "
            f"{config.trainer.devices} -m drobench.app.one_run RESOLVED.yaml` on every node, with the configuration "
            "that `drobench run ... --cfg job --resolve` prints."
        )
    deadline = math.inf if config.timeout is None else time.monotonic() + config.timeout
    # The optimum is found here, once, and read from the cache by every rank.
    with time_limit(config.timeout or 0):
        assemble(config, draft.catalogue, store.root / ".optima")
    with tempfile.TemporaryDirectory(prefix="drobench-") as name:
        resolved = Path(name) / "resolved.yaml"
        resolved.write_text(to_yaml(config), encoding="utf-8")
        output = Path(name) / "output.txt"
        # Its logs go into this folder too, or they would stay among the temporary files.
        command = [sys.executable, "-m", "drobench.app.ranks", "--standalone", "--log-dir", str(Path(name) / "logs")]
        command += ["--nproc-per-node", str(config.trainer.devices), "-m", "drobench.app.one_run", str(resolved)]
        with output.open("wb") as sink:
            launcher = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)  # noqa: S603  # our own words
            try:
                code = _wait(launcher, deadline)
            finally:
                _end(launcher)
        if code == 0:
            return store.read(draft.run_id)
        raise RankFailed(_rank_failure(Path(name)) or f"the launcher ended with code {code}: {_tail(output)}")


def _wait(launcher: subprocess.Popen[bytes], deadline: float) -> int:
    """Return the launcher's code, or raise `TimeLimitExpired` when it is still at work after the deadline.

    It looks again and again, since `Popen.wait` without a timeout would not hear an interrupt: polars handles SIGINT
    with `SA_RESTART`, after which the kernel goes on waiting. A sleep is not restarted.
    """
    while (code := launcher.poll()) is None:
        if time.monotonic() > deadline:
            raise TimeLimitExpired
        time.sleep(_POLL_SECONDS)
    return code


def _end(launcher: subprocess.Popen[bytes]) -> None:
    """Leave no process behind: the launcher ends its ranks when it is asked to end, and the kernel ends them if not."""
    launcher.terminate()
    try:
        launcher.wait(timeout=_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


def _rank_failure(folder: Path) -> str | None:
    """Return what the first failing rank wrote down."""
    failures = [json.loads(file.read_text()) for file in folder.glob("rank*.json")]
    if not failures:
        return None
    first = min(failures, key=lambda failure: float(failure["time"]))
    return f"rank {first['rank']}: {first['reason']}"


def _tail(output: Path) -> str:
    lines = output.read_text(errors="replace").strip().splitlines()
    return " | ".join(lines[-3:]) or "no output"


def main() -> None:
    """Be one rank: compute this process's part of the run in the file named on the command line."""
    end_with_parent(signal.SIGKILL)
    resolved = Path(sys.argv[1])
    catalogue = load_catalogue()
    register(catalogue)
    config = from_yaml(resolved.read_text(encoding="utf-8"), catalogue)
    rank = int(os.environ.get(_RANK_VARIABLE, "0"))
    try:
        dataset = load_dataset(config, catalogue)
        run_id = identify(config, catalogue, dataset.sha256)
        store = ResultStore(Path(config.results))
        store.prepare()
        _compute(store, Draft(run_id, config, catalogue, now(), dataset), None)
    except Exception as error:
        failure = {"rank": rank, "time": time.time(), "reason": f"{type(error).__name__}: {error}"}
        (resolved.parent / f"rank{rank}.json").write_text(json.dumps(failure))
        raise


if __name__ == "__main__":
    main()
