"""One cell: compute it here, or start its processes with torch's launcher; either way exactly one record comes out.

As a program it is one rank of a cell with several processes. `drobench run` starts it as
`python -m drobench.app.one_run RESOLVED.yaml OPTIMUM.json`. The ranks get the resolved configuration of their cell and
what is known of its optimum, and nothing else, which is why sweeps and several processes go together.

`torchrun ... -m drobench.app.one_run RESOLVED.yaml` is how a person starts it, on one machine or on several that share
the folder of results. RESOLVED.yaml is what `drobench run ... --cfg job --resolve` prints. Rank 0 then does what
`drobench run` does: it holds the run's lock, finds the optimum once and tells the others, and writes the record, also
that of a failure. A run that is finished is not computed again: rank 0 says so and all ranks end well. One that
somebody else is computing is refused by all ranks.
"""

import json
import math
import os
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
import torch.distributed

from drobench.app.assemble import Assembly, assemble, load_dataset
from drobench.app.config import RunConfig, from_yaml, register, to_yaml
from drobench.app.identity import identify
from drobench.app.launching import (
    RankFailed,
    failures_noted,
    first_failure,
    forget_failures,
    reference_from_dict,
    reference_to_dict,
    start_ranks,
)
from drobench.app.meeting import Meeting
from drobench.app.ranks import end_with_parent
from drobench.app.recording import Draft, curve_frame, finished_record, now, solution_arrays
from drobench.app.run_logs import log_of, log_stored
from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError
from drobench.reformulation.routes import NoRouteError
from drobench.registry import Catalogue, NeedsNotMet, load_catalogue
from drobench.registry.time_limit import TimeLimitExpired, time_limit
from drobench.results.record import Record, Status
from drobench.results.store import ResultStore
from drobench.training.checkpointing import why_unusable
from drobench.training.loggers import check_logger
from drobench.training.settings import TrainerConfig
from drobench.training.trainer import CHECKPOINT_NAME, check_devices, train

# A combination that makes no sense, as opposed to a run that went wrong.
REFUSALS = (NeedsNotMet, NoRouteError)
Report = Callable[[dict[str, Any]], None]


def run_cell(
    config: RunConfig,
    catalogue: Catalogue,
    *,
    again: bool = False,
    keep_refusals: bool = False,
    report: Report | None = None,
    meeting: Meeting | None = None,
) -> Record:
    """Return the record of this run: the stored one if it is finished, else a new one.

    Args:
        config: The run.
        catalogue: The plugins.
        again: Compute it even if a finished record is there.
        keep_refusals: Record a combination that makes no sense as skipped instead of raising.
        report: Called with every evaluation.
        meeting: With the other ranks, where they were started by hand and this is rank 0; none: they are started here.
    """
    check_logger(config.logger)
    store = ResultStore(Path(config.results))
    store.prepare()
    refusal: Exception | None = None
    try:
        catalogue.check_fit(config.problem.name, config.dataset.name)
        dataset = load_dataset(config, catalogue)
        catalogue.check_fit(config.problem.name, config.dataset.name, dataset.provides)
        check_devices(config.trainer)
        if meeting is None:
            _check_one_machine(config.trainer)
    except Exception as error:  # a dataset may raise anything, and in a sweep it is the result of this cell
        if not keep_refusals:
            raise
        refusal = error
    draft = draft_of(config, catalogue)
    with store.lock(draft.run_id):
        if not again and store.finished(draft.run_id):
            log_stored(draft, store)
            return store.read(draft.run_id)
        if refusal is not None:
            status = Status.SKIPPED if isinstance(refusal, REFUSALS) else Status.FAILED
            return _keep(store, draft.record(status, str(refusal)), config)
        try:
            return _compute_or_start(store, draft, report, meeting)
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


def _check_one_machine(trainer: TrainerConfig) -> None:
    if trainer.nodes > 1:
        raise DrobenchError(
            f"trainer.nodes={trainer.nodes}: ranks on other machines cannot be started from here. Start `torchrun "
            f"--nnodes {trainer.nodes} --nproc-per-node {trainer.devices} --rdzv-backend c10d --rdzv-endpoint "
            "HOST:PORT -m drobench.app.one_run RESOLVED.yaml` on every one of them, with the configuration that "
            "`drobench run ... --cfg job --resolve` prints."
        )


def _compute_or_start(store: ResultStore, draft: Draft, report: Report | None, meeting: Meeting | None) -> Record:
    begin = time.perf_counter()
    config = draft.config
    folder = _work_folder(store, draft.run_id)
    deadline = math.inf if config.timeout is None else time.monotonic() + config.timeout
    with time_limit(config.timeout or 0), _threads(config.trainer.threads):
        # The optimum is found here, once, whatever the number of ranks.
        assembly = assemble(config, draft.catalogue, store.root / ".optima")
        _look_at_checkpoint(store, draft, assembly)
        if meeting is not None:
            return _compute_together(store, draft, assembly, begin, meeting)
        if not config.trainer.distributed:
            return _compute(store, draft, assembly, begin, report)
    start_ranks(to_yaml(config), assembly.reference, config.trainer, folder, deadline)
    return store.read(draft.run_id)


def _compute_together(store: ResultStore, draft: Draft, assembly: Assembly, begin: float, meeting: Meeting) -> Record:
    """Be rank 0 of ranks that were started by hand."""
    folder = _work_folder(store, draft.run_id)
    forget_failures(folder)
    # When another rank has failed, the launcher asks this one to end, which it does once it has recorded that.
    signal.signal(signal.SIGTERM, lambda *_: None)
    meeting.check(draft.run_id)
    meeting.tell({"reference": reference_to_dict(assembly.reference), "results": str(store.root.resolve())})
    try:
        return _compute(store, draft, assembly, begin, None)
    except Exception as error:
        traceback.print_exc()
        raise RankFailed(first_failure(folder) or f"rank 0: {type(error).__name__}: {error}") from error


def _compute(store: ResultStore, draft: Draft, assembly: Assembly, begin: float, report: Report | None) -> Record:
    """Compute the run in this process (or this rank's part of it) and write the record on rank 0."""
    config = draft.config
    folder = _work_folder(store, draft.run_id)
    setup = time.perf_counter() - begin
    with log_of(draft, store.root) as log:
        module = train(assembly.task, config.trainer, log, folder, report)
        if module.verdict is None:
            # Lightning turns Ctrl-C into a quiet end; here it means that there is nothing to record.
            raise KeyboardInterrupt
        record = finished_record(draft, assembly, module, setup, time.perf_counter() - begin)
        if module.trainer.is_global_zero:
            store.write(record, curve_frame(module), solution_arrays(module, assembly.dataset), to_yaml(config))
            shutil.rmtree(folder, ignore_errors=True)
        log.conclude(record)
    return record


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _work_folder(store: ResultStore, run_id: str) -> Path:
    folder = store.root / ".work" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _look_at_checkpoint(store: ResultStore, draft: Draft, assembly: Assembly) -> None:
    """Put a checkpoint that cannot be continued out of the way, or every new attempt would fail on it."""
    file = _work_folder(store, draft.run_id) / CHECKPOINT_NAME
    trouble = why_unusable(file, assembly.task) if file.exists() else None
    if trouble is not None:
        place = store.root / ".damaged" / f"{draft.run_id}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.ckpt"
        place.parent.mkdir(exist_ok=True)
        file.rename(place)
        message = f"{file} cannot be continued ({trouble}). It was moved to {place}; the run starts over."
        print(f"drobench: {message}", file=sys.stderr)


def be_rank(resolved: Path, known: Path | None = None) -> Record:
    """Compute this process's part of the run in the file `resolved`.

    Args:
        resolved: The configuration.
        known: What is known of the optimum, where another process has prepared the run and will record its failures;
            none: the ranks were started by hand and see to that themselves.

    Returns:
        The record of the run, which rank 0 has stored.

    Raises:
        SystemExit: If rank 0 sends this one home: there is nothing to compute.
    """
    begin = time.perf_counter()
    catalogue = load_catalogue()
    register(catalogue)
    config = from_yaml(resolved.read_text(encoding="utf-8"), catalogue)
    rank = _check_world(config.trainer)
    if known is not None:
        return _follow(config, catalogue, json.loads(known.read_text(encoding="utf-8")), rank, begin)
    if not config.trainer.distributed:
        return run_cell(config, catalogue)
    meeting = Meeting()
    if meeting.rank == 0:
        return _lead(config, catalogue, meeting)
    word = meeting.answer(draft_of(config, catalogue).run_id)
    if "end" in word:
        raise SystemExit(word["end"])
    config.results = word["results"]
    return _follow(config, catalogue, word["reference"], meeting.rank, begin)


def _check_world(trainer: TrainerConfig) -> int:
    """Return the rank of this process; refuse a number of processes that is not the configuration's."""
    elastic = torch.distributed.is_torchelastic_launched()
    found = int(os.environ["WORLD_SIZE"]) if elastic else 1
    if found != trainer.processes:
        raise DrobenchError(
            f"The configuration is for {trainer.processes} processes (trainer.nodes={trainer.nodes}, trainer.devices="
            f"{trainer.devices}); found {found}. Start `torchrun --nnodes {trainer.nodes} --nproc-per-node "
            f"{trainer.devices} ... -m drobench.app.one_run RESOLVED.yaml`."
        )
    return int(os.environ["RANK"]) if elastic else 0


def _lead(config: RunConfig, catalogue: Catalogue, meeting: Meeting) -> Record:
    """Be rank 0: do what `drobench run` does, and let the others go if they are not needed."""
    code = DrobenchError.exit_code
    try:
        record = run_cell(config, catalogue, meeting=meeting)
        code = 1 if record.status is Status.FAILED else 0
        there = " before; `drobench rerun` computes it again" if code == 0 and not meeting.over else ""
        print(f"drobench: run {record.short_id} ended as {record.status}{there}: {record.reason}")
        return record
    finally:
        if not meeting.over:
            meeting.tell({"end": code})


def _follow(config: RunConfig, catalogue: Catalogue, reference: Any, rank: int, begin: float) -> Record:
    """Be a rank of a run that was prepared by somebody else."""
    store = ResultStore(Path(config.results))
    draft = draft_of(config, catalogue)
    with failures_noted(_work_folder(store, draft.run_id), rank), _threads(config.trainer.threads):
        assembly = assemble(config, catalogue, store.root / ".optima", reference_from_dict(reference))
        return _compute(store, draft, assembly, begin, None)


def main() -> None:
    """Be one rank: of the run in the file named on the command line."""
    end_with_parent(signal.SIGKILL)
    try:
        record = be_rank(*map(Path, sys.argv[1:]))
    except DrobenchError as error:
        print(f"drobench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(1 if record.status is Status.FAILED else 0)


if __name__ == "__main__":
    main()
