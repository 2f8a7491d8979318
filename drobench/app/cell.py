"""One cell: compute it here, or start its processes with torch's launcher; either way exactly one record comes out."""

import math
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars
import torch

from drobench.app.assemble import Assembly, assemble
from drobench.app.config import RunConfig, to_yaml
from drobench.app.freshness import why_stale
from drobench.app.launching import RankFailed, first_failure, forget_failures, reference_to_dict, start_ranks
from drobench.app.loading import LastDataset
from drobench.app.meeting import Meeting
from drobench.app.prepare import Prepared, prepare
from drobench.app.recording import curve_frame, finished_record, record_of, solution_arrays
from drobench.app.run_logs import log_of, log_stored
from drobench.files import write_atomically
from drobench.reformulation.routes import NoRouteError
from drobench.registry import Catalogue, NeedsNotMet
from drobench.registry.time_limit import TimeLimitExpired, time_limit
from drobench.results.record import Record, Status, canonical_json
from drobench.results.store import ResultStore
from drobench.training.checkpointing import why_unusable
from drobench.training.trainer import CHECKPOINT_NAME, train

OPTIMA = ".optima"
"""Where certified optima lie in a folder of results."""
# Beside a checkpoint: which code wrote it.
_CODE = "code.json"
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
    prepared = prepare(config, catalogue, datasets, ranks_started=meeting is not None)
    store = ResultStore(Path(config.results))
    store.prepare()
    if prepared.refusal is not None and not keep_refusals:
        raise prepared.refusal
    with store.lock(prepared.run_id):
        stored = store.finished_record(prepared.run_id)
        if stored is not None:
            stale = why_stale(stored, prepared.code, config.trust)
            if stale is None:
                log_stored(prepared, store)
                return stored
            _say(f"run {stored.short_id} is there, but {stale}. It is computed again; what is there is kept in .older.")
        if prepared.refusal is not None:
            return _keep_refusal(store, prepared, prepared.refusal)
        try:
            return _compute_or_start(store, prepared, on_evaluation, meeting, optima or store.root / OPTIMA)
        except REFUSALS as error:
            if not keep_refusals:
                raise
            return _keep_refusal(store, prepared, error)
        except TimeLimitExpired:
            reason = f"timed out after {config.timeout:g} s"
        except RankFailed as error:
            reason = str(error)
        except Exception as error:  # whatever a solver raises is the result of this cell, and of no other
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
        return _keep(store, prepared, Status.FAILED, reason)


def fail_cell(prepared: Prepared, reason: str) -> Record:
    """Record a cell whose process could not do it itself."""
    store = ResultStore(Path(prepared.config.results))
    with store.lock(prepared.run_id):
        if store.finished(prepared.run_id):
            return store.read(prepared.run_id)
        return _keep(store, prepared, Status.FAILED, reason)


def _keep_refusal(store: ResultStore, prepared: Prepared, refusal: Exception) -> Record:
    """Store why a run was not computed: because it makes no sense, or because something is missing here."""
    status = Status.SKIPPED if isinstance(refusal, REFUSALS) else Status.FAILED
    return _keep(store, prepared, status, str(refusal))


def _keep(store: ResultStore, prepared: Prepared, status: Status, reason: str) -> Record:
    """Store a record without curve and solution; a finished result is never replaced by a failure to repeat it."""
    record = record_of(prepared, status, reason)
    if not store.finished(record.run_id):
        store.write(record, polars.DataFrame(), {}, to_yaml(prepared.config))
    return record


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
        _look_at_checkpoint(store, prepared, assembly)
        if meeting is not None:
            return _compute_together(store, prepared, assembly, begin, meeting)
        if not config.trainer.distributed:
            return compute(store, prepared, assembly, begin, on_evaluation)
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
    except Exception as error:
        traceback.print_exc()
        raise RankFailed(first_failure(folder) or f"rank 0: {type(error).__name__}: {error}") from error


def compute(
    store: ResultStore, prepared: Prepared, assembly: Assembly, begin: float, on_evaluation: OnEvaluation | None = None
) -> Record:
    """Compute the run in this process (or this rank's part of it) and write the record on rank 0."""
    config = prepared.config
    folder = work_folder(store, prepared.run_id)
    setup = time.perf_counter() - begin
    with log_of(prepared, store.root) as log:
        module = train(assembly.task, config.trainer, log, folder, on_evaluation)
        if module.verdict is None:
            # Lightning turns Ctrl-C into a quiet end; here it means that there is nothing to record.
            raise KeyboardInterrupt
        record = finished_record(prepared, assembly, module, setup, time.perf_counter() - begin)
        if module.trainer.is_global_zero:
            store.write(record, curve_frame(module), solution_arrays(module, assembly.dataset), to_yaml(config))
            shutil.rmtree(folder, ignore_errors=True)
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


def work_folder(store: ResultStore, run_id: str) -> Path:
    """Return where a run keeps its checkpoint and its ranks say why they failed, until it is finished."""
    folder = store.root / ".work" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _look_at_checkpoint(store: ResultStore, prepared: Prepared, assembly: Assembly) -> None:
    """Put a checkpoint that cannot be continued out of the way, or every new attempt would fail on it."""
    file = work_folder(store, prepared.run_id) / CHECKPOINT_NAME
    trouble = None
    if file.exists():
        trouble = _written_by_other_code(file.parent, prepared) or why_unusable(file, assembly.task)
    write_atomically(file.parent / _CODE, canonical_json(prepared.code.distributions))
    if trouble is not None:
        place = store.root / ".damaged" / f"{prepared.run_id}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.ckpt"
        place.parent.mkdir(exist_ok=True)
        file.rename(place)
        _say(f"{file} cannot be continued ({trouble}). It was moved to {place}; the run starts over.")


def _written_by_other_code(folder: Path, prepared: Prepared) -> str | None:
    """Return what is wrong with a checkpoint that another version of the code began: half of each would be neither."""
    note = folder / _CODE
    # As bytes: a damaged note may be no text at all.
    found = note.read_bytes() if note.exists() else None
    same = found == canonical_json(prepared.code.distributions).encode()
    return None if same else "it was written by other code than that of this run"


def _say(message: str) -> None:
    print(f"drobench: {message}", file=sys.stderr)
