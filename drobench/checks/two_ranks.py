"""The same steps on two processes and on one.

    python -m torch.distributed.run --standalone --nproc-per-node 2 -m drobench.checks.two_ranks FOLDER

is what `on_two_processes` starts: each rank runs every solver that `FOLDER/requests` names, on the same small problems
and with full draws, and writes down where it got to. Several solvers share one start of the processes.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed
from torch import Tensor

from drobench.checks.known_solutions import known_problems
from drobench.checks.trials import ManyProblems, find_trials, last, states
from drobench.checks.watched_oracle import draw_everything
from drobench.errors import DrobenchError
from drobench.objective.sampling import Shard
from drobench.registry import SolverEntry, load_catalogue
from drobench.solver import Communicator, ProcessGroup, SingleProcess
from drobench.solver.leaving import leave

STEPS = 25
_PATIENCE = timedelta(seconds=60)
_TIMEOUT = 240.0


class Request(NamedTuple):
    """A solver to run: by its name in the catalogue, or by the entry itself; and on what."""

    name: str
    config: Any
    entry: SolverEntry | None = None
    problems: ManyProblems = known_problems

    @property
    def key(self) -> bytes:
        """What identifies the request."""
        return pickle.dumps(self)

    def find(self) -> SolverEntry:
        """Return the solver's entry."""
        return self.entry or load_catalogue().solver(self.name).entry


class Ends(NamedTuple):
    """Where a run got to on each small problem, or why it did not."""

    points: Mapping[str, Tensor]
    error: str = ""


def run(request: Request, shard: Shard, communicator: Communicator) -> Ends:
    """Run one solver, as one process or as one of several."""
    points: dict[str, Tensor] = {}
    try:
        entry = request.find()
        for trial in find_trials(entry, request.config, problems=request.problems):
            oracle, solver = trial.oracle(7, shard), entry.factory(request.config)
            draw_everything(oracle)
            points[trial.name] = solver.solution(last(states(solver, oracle, trial.start, STEPS, communicator)))
    except Exception as error:  # whatever a stranger's solver raises belongs into the report about it
        return Ends(points, f"{type(error).__name__}: {error}")
    return Ends(points)


def on_one_process(request: Request) -> Ends:
    """Return where the solver gets alone."""
    return run(request, Shard(), SingleProcess())


def on_two_processes(requests: Iterable[Request]) -> list[list[Ends]]:
    """Return, for each request, where each of two processes got to; what was asked for before is remembered."""
    wanted = list(requests)
    new = [request for request in wanted if request.key not in _known]
    if new:
        _known.update(zip([request.key for request in new], _start(new), strict=True))
    return [_known[request.key] for request in wanted]


_known: dict[bytes, list[Ends]] = {}


def _start(requests: list[Request]) -> list[list[Ends]]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "requests").write_bytes(pickle.dumps(requests))
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        done = subprocess.run(  # noqa: S603  # our own module, on requests written above
            [*launcher, "-m", "drobench.checks.two_ranks", folder],
            # Entries of a test module must be found over there as here.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        files = [Path(folder) / f"rank{rank}" for rank in (0, 1)]
        if done.returncode or not all(file.exists() for file in files):
            said = " ".join(done.stderr.split())[-2000:]
            return [[Ends({}, f"the processes ended with code {done.returncode}: {said}")] * 2 for _ in requests]
        # Written by the two processes just started, with what was handed to them.
        by_rank = [pickle.loads(file.read_bytes()) for file in files]  # noqa: S301
        return [list(ends) for ends in zip(*by_rank, strict=True)]


def main() -> None:
    """Be one rank."""
    warnings.simplefilter("error")
    (folder,) = sys.argv[1:]
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", timeout=_PATIENCE)
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    if world != 2:
        raise DrobenchError(f"drobench.checks.two_ranks runs on two processes; found {world}.")
    requests = pickle.loads((Path(folder) / "requests").read_bytes())  # noqa: S301  # written by who started us
    found = [run(request, Shard(rank, world), ProcessGroup()) for request in requests]
    (Path(folder) / f"rank{rank}").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    # As a module of the package, so that what it pickles is found by whoever started it.
    from drobench.checks.two_ranks import main as main_of_the_package

    main_of_the_package()
    leave()
