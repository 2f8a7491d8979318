"""The program of one rank of a cell with several processes.

`drobench run` starts it as `python -m drobench.app.one_run RESOLVED.yaml OPTIMUM.json`. The ranks get the resolved
configuration of their cell and what is known of its optimum, and nothing else, which is why sweeps and several
processes go together.

`torchrun ... -m drobench.app.one_run RESOLVED.yaml` is how a person starts it, on one machine or on several that share
the folder of results. RESOLVED.yaml is what `drobench run ... --cfg job --resolve` prints. Rank 0 then does what
`drobench run` does: it holds the run's lock, finds the optimum once and tells the others, and writes the record, also
that of a failure. A run that is finished is not computed again: rank 0 says so and all ranks end well. One that
somebody else is computing is refused by all ranks.
"""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from drobench.app.assemble import assemble
from drobench.app.cell import OPTIMA, compute, run_cell, threads_set
from drobench.app.config import RunConfig, from_yaml, register
from drobench.app.launching import failures_noted, note_record, reference_from_dict
from drobench.app.meeting import Meeting
from drobench.app.prepare import Prepared, prepare
from drobench.app.ranks import end_with_parent, started_by, told_by_launcher
from drobench.app.work import work_folder
from drobench.errors import DrobenchError
from drobench.registry import Catalogue, load_catalogue
from drobench.results.outcome import in_words
from drobench.results.record import Outcome, Record, Status
from drobench.results.store import ResultStore
from drobench.solver.leaving import leave
from drobench.training.settings import TrainerConfig


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
    config = from_yaml(resolved.read_text(encoding="utf-8"), catalogue, logged=True)
    rank = _check_world(config.trainer)
    if known is not None:
        reference = json.loads(known.read_text(encoding="utf-8"))
        record = _follow(prepare(config, catalogue, ranks_started=True), reference, rank, begin)
        if rank == 0:
            note_record(known.parent)
        return record
    if not config.trainer.distributed:
        return run_cell(config, catalogue)
    meeting = Meeting()
    if meeting.rank == 0:
        return _lead(config, catalogue, meeting)
    prepared = prepare(config, catalogue, ranks_started=True)
    word = meeting.answer(prepared.run_id)
    if "end" in word:
        raise SystemExit(word["end"])
    config.results = word["results"]
    return _follow(prepared, word["reference"], meeting.rank, begin)


def _check_world(trainer: TrainerConfig) -> int:
    """Return the rank of this process; refuse a number of processes that is not the configuration's."""
    found = told_by_launcher("WORLD_SIZE", alone=1)
    if found != trainer.processes:
        raise DrobenchError(
            f"The configuration is for {trainer.processes} processes (trainer.nodes={trainer.nodes}, trainer.devices="
            f"{trainer.devices}); found {found}. Start `torchrun --nnodes {trainer.nodes} --nproc-per-node "
            f"{trainer.devices} ... -m drobench.app.one_run RESOLVED.yaml`."
        )
    return told_by_launcher("RANK", alone=0)


def _lead(config: RunConfig, catalogue: Catalogue, meeting: Meeting) -> Record:
    """Be rank 0: do what `drobench run` does, and let the others go if they are not needed."""
    code = DrobenchError.exit_code
    try:
        record = run_cell(config, catalogue, meeting=meeting)
        code = 1 if record.status is Status.FAILED else 0
        there = " before; `drobench rerun` computes it again" if code == 0 and not meeting.over else ""
        outcome = "" if record.outcome in (None, Outcome.OK) else f", {in_words(record.outcome)}"
        print(f"drobench: run {record.short_id} ended as {record.status}{outcome}{there}: {record.reason}")
        return record
    finally:
        if not meeting.over:
            meeting.tell({"end": code})


def _follow(prepared: Prepared, reference: Any, rank: int, begin: float) -> Record:
    """Be a rank of a run whose optimum was found by somebody else."""
    config = prepared.config
    store = ResultStore(Path(config.results))
    with failures_noted(work_folder(store, prepared.run_id), rank), threads_set(config.trainer.threads):
        assembly = assemble(prepared, store.root / OPTIMA, reference_from_dict(reference))
        return compute(store, prepared, assembly, begin)


def main() -> int:
    """Be one rank: of the run in the file named on the command line; return the code to end with."""
    end_with_parent(signal.SIGKILL, started_by())
    try:
        record = be_rank(*map(Path, sys.argv[1:]))
    except DrobenchError as error:
        print(f"drobench: {error}", file=sys.stderr)
        return error.exit_code
    return 1 if record.status is Status.FAILED else 0


if __name__ == "__main__":
    leave(main())
