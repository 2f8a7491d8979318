"""The pool that computes the cells of a sweep: each in a process of its own, which is killed when its time is up.

A cell that fails, hangs or dies costs no other cell anything. One that another process computes is waited for.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from drobench.app.cell import fail_cell
from drobench.app.config import to_yaml
from drobench.app.freshness import taken
from drobench.app.sweep_plan import Cell
from drobench.app.sweep_planner import LoaderDied
from drobench.app.sweep_server import how_it_ended, start_server
from drobench.app.sweep_worker import Answer, Ended, Planned, work
from drobench.results.record import Record, short_id
from drobench.results.store import ResultStore, RunBusy, StoreUnusable

_POLL_SECONDS = 0.05
_BUSY_SECONDS = 0.5
# For a worker that is asked to end, and for its guard to end what it has left.
_GRACE_SECONDS = 15.0
_GUARD_SECONDS = 7.0

Done = Callable[[Cell, Record], None]
Waits = Callable[[Sequence[Cell]], None]


@dataclass
class _Running:
    cell: Cell
    process: ForkServerProcess
    answers: "Connection[Answer, Answer]"
    log: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


def execute(cells: Sequence[Cell], jobs: int, done: Done, waits: Waits = lambda _: None) -> None:
    """Compute the cells. Ctrl-C ends all of them, unrecorded.

    Args:
        cells: The cells.
        jobs: How many at a time.
        done: Called as each one ends.
        waits: Called once, with the cells that are left when other processes compute all of them.

    Raises:
        StoreUnusable: If nothing can be written any more; the cells at work are ended.
    """
    pool = _Pool(cells, jobs, done, waits)
    with pool.killing():
        while pool.queue or pool.running or pool.busy:
            pool.start()
            time.sleep(_POLL_SECONDS)
            pool.look()


class _Pool:
    def __init__(self, cells: Sequence[Cell], jobs: int, done: Done, waits: Waits) -> None:
        self.context = start_server()
        self.queue = deque(cells)
        self.jobs = jobs
        self.done = done
        self.waits = waits
        self.running: list[_Running] = []
        self.busy: list[Cell] = []
        """The cells that other processes compute."""
        self.looked_at_busy = time.monotonic()
        self.said_that_it_waits = False

    def start(self) -> None:
        """Start as many cells as may run at a time."""
        while self.queue and len(self.running) < self.jobs:
            cell = self.queue.popleft()
            if isinstance(cell.prepared.refusal, LoaderDied):
                self._fail(cell, str(cell.prepared.refusal))
            elif record := taken(ResultStore(Path(cell.config.results)), cell.prepared):
                # Somebody else has computed it since the sweep was planned.
                self._end(cell, record)
            else:
                self.running.append(_start(self.context, cell))

    def look(self) -> None:
        """See which cells have ended, here and elsewhere."""
        for job in list(self.running):
            self._look_at(job)
        if self.busy and time.monotonic() - self.looked_at_busy >= _BUSY_SECONDS:
            self._look_at_busy()
            self.looked_at_busy = time.monotonic()

    def _look_at(self, job: _Running) -> None:
        timeout = job.cell.config.timeout
        if not job.process.is_alive():
            self.running.remove(job)
            job.process.join()
            self._take(job)
        elif timeout is not None and job.seconds >= timeout:
            self.running.remove(job)
            _kill([job])
            self._fail(job.cell, f"timed out after {timeout:g} s; output in {job.log}")

    def _take(self, job: _Running) -> None:
        """Take what a worker has left: its record, its word, or how it died."""
        answer = _answer(job)
        if answer is None:
            ended = how_it_ended(job.process.exitcode)
            without = " without a record" if job.process.exitcode == 0 else ""
            self._fail(job.cell, f"its process {ended}{without}; output in {job.log}")
        elif answer.ended is Ended.BUSY:
            self.busy.append(job.cell)
        elif answer.ended is Ended.UNUSABLE:
            raise StoreUnusable(answer.message)
        else:
            self._end(job.cell, ResultStore(Path(job.cell.config.results)).read(job.cell.run_id))

    def _fail(self, cell: Cell, reason: str) -> None:
        """Record a cell as failed, unless somebody else is computing it: then it is theirs to record."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            self._end(cell, fail_cell(replace(cell.prepared, started_at=now), reason))
        except RunBusy:
            self.busy.append(cell)

    def _end(self, cell: Cell, record: Record) -> None:
        self.done(cell, record)

    def _look_at_busy(self) -> None:
        """Take what others have finished, and compute what they have given up."""
        for cell in list(self.busy):
            store = ResultStore(Path(cell.config.results))
            if taken(store, cell.prepared) or _is_free(store, cell.run_id):
                self.busy.remove(cell)
                self.queue.append(cell)
        if self.busy and not (self.queue or self.running or self.said_that_it_waits):
            self.said_that_it_waits = True
            self.waits(self.busy)

    @contextlib.contextmanager
    def killing(self) -> Iterator[None]:
        """Leave no worker behind."""
        try:
            yield
        finally:
            _kill(self.running)


def _start(context: ForkServerContext, cell: Cell) -> _Running:
    log = Path(cell.config.results) / ".logs" / f"{short_id(cell.run_id)}.txt"
    answers, told = context.Pipe(duplex=False)
    planned = Planned(cell.run_id, cell.prepared.code.distributions)
    words = (to_yaml(cell.config), planned, str(log), told, _GRACE_SECONDS)
    process = context.Process(target=work, args=words)
    process.start()
    told.close()
    return _Running(cell, process, answers, log)


def _answer(job: _Running) -> Answer | None:
    """Return what a worker that has ended has told, if it has."""
    with job.answers, contextlib.suppress(EOFError):
        return job.answers.recv() if job.answers.poll() else None
    return None


def _is_free(store: ResultStore, run_id: str) -> bool:
    try:
        with store.lock(run_id):
            return True
    except RunBusy:
        return False


def _kill(jobs: Sequence[_Running]) -> None:
    """End workers: first politely, since they may have ranks to end; a hanging one has no say."""
    for job in jobs:
        job.process.terminate()
    end = time.monotonic() + _GRACE_SECONDS + _GUARD_SECONDS
    for job in jobs:
        job.process.join(max(end - time.monotonic(), 0.0))
        if job.process.is_alive():
            job.process.kill()
            job.process.join()
