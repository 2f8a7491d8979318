"""A plugin for the tests: a solver that breaks on rank 1 when it is told to, and a reference solver that counts.

It is put on the path of every process that a test starts, as if it were installed.
"""

import ctypes
import errno
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from drobench import SolverEntry, hookimpl
from drobench.objective.forms import FiniteSum, RobustRisk
from drobench.solver import Communicator, Solver


@dataclass
class BreakableConfig:
    """When to break, and how: `raise`, `die`, `hang`, `exit`, `vanish` (on all ranks), `fill`, or not at all."""

    fault: str = "none"
    at_step: int = 5


@dataclass(frozen=True)
class BreakableState:
    """Where the solver stands."""

    point: Tensor
    steps: int


class Breakable(Solver[BreakableState]):
    """Stochastic gradient steps, until something happens."""

    def __init__(self, config: BreakableConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle, communicator: Communicator) -> BreakableState:
        threads = (torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS"), os.environ.get("OPENBLAS_NUM_THREADS"))
        Path(tempfile.gettempdir(), f"threads{communicator.rank}.txt").write_text(repr(threads))
        return BreakableState(start, 0)

    def step(self, state: BreakableState, oracle, communicator: Communicator) -> BreakableState:
        if (communicator.rank == 1 or self.config.fault == "vanish") and state.steps + 1 == self.config.at_step:
            self.break_down()
        # Computing for ever, from a step that lies behind some checkpoints.
        while state.steps + 1 == int(os.environ.get("BREAKABLE_STOPS_AT", "0")):
            time.sleep(0.05)
        rows = oracle.draw(8)
        _, gradients = oracle.estimate(state.point[None], rows)
        (gradient,) = communicator.total([gradients[0] * rows.sample_share])
        return BreakableState(oracle.prox(state.point - 0.1 * gradient, 0.1), state.steps + 1)

    def break_down(self) -> None:
        if self.config.fault != "none":
            Path(tempfile.gettempdir(), "broken").touch()
        if self.config.fault == "raise":
            raise ArithmeticError("broken on purpose")
        if self.config.fault == "exit":
            sys.exit(0)
        if self.config.fault == "vanish":
            ctypes.CDLL(None)._exit(0)
        if self.config.fault == "fill":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.config.fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        while self.config.fault == "hang":
            time.sleep(0.1)

    def solution(self, state: BreakableState) -> Tensor:
        return state.point


@dataclass
class CountedConfig:
    """Nothing to set."""


class Counted(Solver[BreakableState]):
    """A reference solver that never finds anything, but leaves a line whenever it is asked."""

    def __init__(self, config: CountedConfig) -> None:
        pass

    def init(self, start: Tensor, oracle, communicator: Communicator) -> BreakableState:
        with Path(tempfile.gettempdir(), "asked.txt").open("a") as file:
            file.write(f"{os.getpid()}\n")
        raise ArithmeticError("no optimum today")

    def step(self, state: BreakableState, oracle, communicator: Communicator) -> BreakableState:
        return state

    def solution(self, state: BreakableState) -> Tensor:
        return state.point


@hookimpl
def drobench_solvers() -> list[SolverEntry]:
    return [
        SolverEntry(
            name="breakable",
            summary="Breaks on request.",
            config=BreakableConfig,
            factory=Breakable,
            accepts=(FiniteSum,),
        ),
        SolverEntry(
            name="counted",
            summary="Counts how often somebody asks for the optimum.",
            config=CountedConfig,
            factory=Counted,
            accepts=(RobustRisk,),
            exact=True,
        ),
    ]
