"""One cell: compute it here, or start its processes with torch's launcher; either way exactly one record comes out."""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import torch

from drobench.app.assemble import Assembly, assemble
from drobench.app.config import RunConfig, to_yaml
from drobench.app.freshness import taken, why_stale
from drobench.app.full_disk import disk_error, of_the_disk
from drobench.app.launching import RankFailed, first_failure, forget_failures, reference_to_dict, start_ranks
from drobench.app.loading import DatasetFailed, LastDataset
from drobench.app.meeting import Meeting
from drobench.app.prepare import Prepared, prepare
from drobench.app.recording import curve_frame, finished_record, record_of, solution_arrays
from drobench.app.run_logs import log_of, log_stored
from drobench.app.work import checkpoint_doubted, clear_work, look_at_checkpoint, work_folder
from drobench.reasons import print_traceback, reason_of, tidy
from drobench.reformulation.routes import NoRouteError
from drobench.registry import Catalogue, NeedsNotMet
from drobench.registry.exits import AskedToEnd, attempt_to_end, exits_raise
from drobench.registry.process_state import state_kept
from drobench.registry.time_limit import TimeLimitExpired, time_limit
from drobench.results.record import Record, Status
from drobench.results.store import ResultStore, StoreUnusable
from drobench.training.trainer import train

OPTIMA = ".optima"
"""Where certified optima lie in a folder of results."""
# A combination that makes no sense, as opposed to a run that went wrong.
REFUSALS = (NeedsNotMet, NoRouteError)
OnEvaluation = Callable[[dict[str, Any]], None]


def run_cell(
    config: RunConfig,
    catalogue: Catalogue,
    *,
    keep_refusals: bool = False,
    on_evaluation: OnEvaluation | None = None,
    meeting: Meeting | None = None,
    datasets: LastDataset | None = None,
    optima: Path | None = None,
) -> Record:
    """Return the record of this run: the stored one if it is finished and made by this code, else a new one.

    Args:
        config: The run.
        catalogue: The plugins.
        keep_refusals: Record a combination that makes no sense as skipped instead of raising.
        on_evaluation: Called with every evaluation.
        meeting: With the other ranks, where they were started by hand and this is rank 0; none: they are started here.
        datasets: Who has loaded the data of the run before this one; none: they are loaded for this run.
        optima: Where certified optima are kept; none: among the results.
    """
    # Whatever a plugin does to the working directory, and to whatever else belongs to the process.
    config = replace(config, results=str(Path(config.results).absolute()))
    with state_kept():
        prepared = prepare(config, catalogue, datasets, ranks_started=meeting is not None)
        return run_prepared(
            prepared, keep_refusals=keep_refusals, on_evaluation=on_evaluation, meeting=meeting, optima=optima
        )


def run_prepared(
    prepared: Prepared,
    *,
    keep_refusals: bool = False,
    on_evaluation: OnEvaluation | None = None,
    meeting: Meeting | None = None,
    optima: Path | None = None,
) -> Record:
    """Do what `run_cell` does with a run whose data are loaded."""
    store = ResultStore(Path(prepared.config.results))
    store.prepare()
    # A dataset that fails is a result, as a solver that does.
    if prepared.refusal is not None and not keep_refusals and not isinstance(prepared.refusal, DatasetFailed):
        raise prepared.refusal
    with store.lock(prepared.run_id):
        stored = store.finished_record(prepared.run_id)
        if stored is not None:
            stale = why_stale(stored, prepared.code_along(stored.others.get("route")), prepared.config.trust)
            if stale is None:
                log_stored(prepared.config, prepared.run_id, prepared.catalogue, store)
                return stored
            message = (
                f"run {stored.short_id} is there, but {stale}. It is computed again; what is there is kept in .older."
            )
            print(f"drobench: {message}", file=sys.stderr)
        if prepared.refusal is not None:
            return _keep_refusal(store, prepared, prepared.refusal)
        try:
            with exits_raise():
                return _compute_or_start(store, prepared, on_evaluation, meeting, optima or store.root / OPTIMA)
        except REFUSALS as error:
            if not keep_refusals:
                raise
            return _keep_refusal(store, prepared, error)
        except (StoreUnusable, KeyboardInterrupt, AskedToEnd):
            raise
        except BaseException as error:  # whatever a solver raises is the result of this cell, and of no other
            if of_the_disk(error):
                raise disk_error(error) from error
            return _keep(store, prepared, Status.FAILED, _why_failed(error, prepared.config))


def _why_failed(error: BaseException, config: RunConfig) -> str:
    if isinstance(error, TimeLimitExpired):
        return f"timed out after {config.timeout:g} s"
    if isinstance(error, RankFailed):
        return str(error)
    print_traceback(error)
    return attempt_to_end(error) if isinstance(error, SystemExit) else reason_of(error)


def fail_cell(prepared: Prepared, reason: str) -> Record:
    """Record a cell whose process could not do it itself."""
    store = ResultStore(Path(prepared.config.results))
    with store.lock(prepared.run_id):
        return taken(store, prepared) or _keep(store, prepared, Status.FAILED, reason)


def _keep_refusal(store: ResultStore, prepared: Prepared, refusal: Exception) -> Record:
    """Store why a run was not computed: because it makes no sense, or because something is missing here."""
    status = Status.SKIPPED if isinstance(refusal, REFUSALS) else Status.FAILED
    return _keep(store, prepared, status, str(refusal))


def _keep(store: ResultStore, prepared: Prepared, status: Status, reason: str) -> Record:
    """Store a record without curve and solution; a finished result is never replaced by a failure to repeat it."""
    record = record_of(prepared, status, tidy(reason))
    if not store.finished(record.run_id):
        store.write(record, polars.DataFrame(), {}, _config_to_store(prepared.config))
    return record


def _config_to_store(config: RunConfig) -> str:
    """Return the configuration without the way to its folder, which is nobody's business who is handed the run."""
    return to_yaml(replace(config, results=Path(config.results).name))


def _compute_or_start(
    store: ResultStore,
    prepared: Prepared,
    on_evaluation: OnEvaluation | None,
    meeting: Meeting | None,
    optima: Path,
) -> Record:
    begin = time.perf_counter()
    config = prepared.config
    folder = work_folder(store, prepared.run_id)
    deadline = math.inf if config.timeout is None else time.monotonic() + config.timeout
    with time_limit(config.timeout or 0), threads_set(config.trainer.threads):
        # The optimum is found here, once, whatever the number of ranks.
        assembly = assemble(prepared, optima)
        look_at_checkpoint(store, prepared, assembly.task)
        with checkpoint_doubted(store, prepared.run_id):
            if meeting is not None:
                return _compute_together(store, prepared, assembly, begin, meeting)
            if not config.trainer.distributed:
                return compute(store, prepared, assembly, begin, on_evaluation)
    with checkpoint_doubted(store, prepared.run_id):
        start_ranks(to_yaml(config), assembly.reference, config.trainer, folder, deadline)
    return store.read(prepared.run_id)


def _compute_together(
    store: ResultStore, prepared: Prepared, assembly: Assembly, begin: float, meeting: Meeting
) -> Record:
    """Be rank 0 of ranks that were started by hand."""
    folder = work_folder(store, prepared.run_id)
    forget_failures(folder)
    # When another rank has failed, the launcher asks this one to end, which it does once it has recorded that.
    signal.signal(signal.SIGTERM, lambda *_: None)
    meeting.check(prepared.run_id)
    meeting.tell({"reference": reference_to_dict(assembly.reference), "results": str(store.root.resolve())})
    try:
        return compute(store, prepared, assembly, begin)
    except (Exception, SystemExit) as error:
        print_traceback(error)
        mine = attempt_to_end(error) if isinstance(error, SystemExit) else reason_of(error)
        raise RankFailed(first_failure(folder) or f"rank 0: {mine}") from error


def compute(
    store: ResultStore, prepared: Prepared, assembly: Assembly, begin: float, on_evaluation: OnEvaluation | None = None
) -> Record:
    """Compute the run in this process (or this rank's part of it) and write the record on rank 0."""
    config = prepared.config
    folder = work_folder(store, prepared.run_id)
    setup = time.perf_counter() - begin
    with log_of(config, prepared.run_id, prepared.catalogue, store.root) as log:
        module = train(assembly.task, config.trainer, log, folder, on_evaluation)
        if module.verdict is None:
            # Lightning turns Ctrl-C into a quiet end; here it means that there is nothing to record.
            raise KeyboardInterrupt
        record = finished_record(prepared, assembly, module, setup, time.perf_counter() - begin)
        if module.trainer.is_global_zero:
            solution = solution_arrays(module, assembly.dataset)
            store.write(record, curve_frame(module), solution, _config_to_store(config))
            clear_work(folder)
        log.conclude(record)
    return record


@contextmanager
def threads_set(number: int) -> Iterator[None]:
    """Let torch use so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
