"""A plugin that misbehaves as its settings say: a solver, a dataset and a problem, each sound unless told otherwise.

It is put on the path of the processes that a scenario starts, as if it were installed.
"""

import collections
import contextlib
import ctypes
import dataclasses
import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drobench import DatasetEntry, ProblemEntry, SolverEntry, hookimpl
from drobench.data.dataset import Dataset
from drobench.objective.forms import FiniteSum
from drobench.solver import Solver
from drobench_plugins.datasets.synthetic import SyntheticConfig, load_synthetic_dataset
from drobench_plugins.problems.divergence_classification import DivergenceClassification, KLClassificationConfig

_MEMORY = 8 << 30
"""Address space of the guest that takes all memory, so that the machine survives."""
_FOR_EVER = 3600


def _raise(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def _sleep() -> None:
    time.sleep(_FOR_EVER)


def _spin() -> None:
    # A loop inside the interpreter's C code: no Python signal handler ever gets its turn.
    collections.deque(itertools.repeat(0), maxlen=0)


def _exit_zero() -> None:
    sys.exit(0)


def _die_zero() -> None:
    os._exit(0)


def _crash() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def _print() -> None:
    for _ in range(200):
        print("noise " * 2000)
        print("noise " * 2000, file=sys.stderr)


def _child() -> None:
    if os.fork() == 0:
        with contextlib.suppress(BaseException):
            time.sleep(_FOR_EVER)
        os._exit(0)


def _child_of_its_own() -> None:
    """A program in a session of its own, that does not end when it is asked to."""
    words = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    subprocess.Popen([sys.executable, "-c", words], start_new_session=True)


def _thread() -> None:
    threading.Thread(target=_sleep).start()


def _settings() -> None:
    torch.set_default_dtype(torch.float16)
    torch.set_default_device("meta")
    torch.set_num_threads(2)
    torch.set_grad_enabled(True)


def _elsewhere() -> None:
    os.chdir("/")


def _take_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    kept = []
    while True:
        kept.append(torch.ones(1 << 26))


def _deaf() -> None:
    """Wait, and listen to nobody."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(_FOR_EVER)


ACTS: dict[str, Callable[[], None]] = {
    "behave": lambda: None,
    "raise": _raise(ValueError("the guest has had enough")),
    "raise_nothing": _raise(RuntimeError()),
    "raise_interrupt": _raise(KeyboardInterrupt()),
    "raise_exit": _raise(SystemExit("the guest leaves")),
    "raise_stop": _raise(StopIteration(3)),
    "raise_memory": _raise(MemoryError("the guest wants more")),
    "raise_long": _raise(ValueError("x" * 5_000_000)),
    "raise_surrogates": _raise(ValueError("lone \ud800 surrogate")),
    "raise_control": _raise(ValueError("clears \x1b[2J the screen \x07\x9b2J\r")),
    "sleep": _sleep,
    "spin": _spin,
    "deaf": _deaf,
    "exit_zero": _exit_zero,
    "die_zero": _die_zero,
    "crash": _crash,
    "print": _print,
    "child": _child,
    "child_of_its_own": _child_of_its_own,
    "thread": _thread,
    "settings": _settings,
    "elsewhere": _elsewhere,
    "memory": _take_memory,
}


@dataclass
class GuestConfig:
    """What to do, and in which method: `make`, `init`, `step` or `solution`."""

    act: str = "behave"
    where: str = "step"
    answer: str = "point"
    """What a step leads to: `point`, `nan`, `shape`, `text`, `none`."""


@dataclass(frozen=True)
class GuestState:
    """Where the guest stands."""

    point: Tensor
    steps: int


class Guest(Solver[GuestState]):
    """Gradient steps, until something happens."""

    def __init__(self, config: GuestConfig) -> None:
        self.config = config
        self._at("make")

    def _at(self, where: str) -> None:
        if self.config.where == where:
            ACTS[self.config.act]()

    def init(self, start: Tensor, oracle: Any, communicator: Any) -> GuestState:
        self._at("init")
        return GuestState(start, 0)

    def step(self, state: GuestState, oracle: Any, communicator: Any) -> GuestState:
        if state.steps == 2:
            self._at("step")
        rows = oracle.draw()
        _, gradients = oracle.estimate(state.point[None], rows)
        (gradient,) = communicator.total([gradients[0] * rows.sample_share])
        return GuestState(self._answer(oracle.prox(state.point - 0.1 * gradient, 0.1)), state.steps + 1)

    def _answer(self, point: Tensor) -> Any:
        answers: dict[str, Any] = {
            "point": point,
            "nan": point * torch.nan,
            "shape": torch.cat([point, point]),
            "text": "no tensor",
            "none": None,
        }
        return answers[self.config.answer]

    def solution(self, state: GuestState) -> Tensor:
        self._at("solution")
        return state.point


@dataclass
class StrictConfig(GuestConfig):
    """Settings that fail when they are made, with an error that nobody expects there."""

    strict: bool = False

    def __post_init__(self) -> None:
        """Fail where told to."""
        if self.strict:
            raise ZeroDivisionError("no settings please")


@dataclass
class GuestDataConfig(SyntheticConfig):
    """What to do while loading."""

    act: str = "behave"


def load(config: GuestDataConfig) -> Dataset:
    """Load the synthetic data, or do something else."""
    if config.act == "differ":
        # Other data each time, and in each process.
        config = dataclasses.replace(config, seed=time.monotonic_ns() % 1_000_000)
    else:
        ACTS[config.act]()
    return load_synthetic_dataset(config)


@dataclass
class GuestProblemConfig(KLClassificationConfig):
    """What to do while posing the problem."""

    act: str = "behave"


class GuestProblem(DivergenceClassification):
    """A problem whose making may go wrong."""

    def __init__(self, config: Any, dataset: Any, model: Any) -> None:
        ACTS[config.act]()
        super().__init__(config, dataset, model)


@hookimpl
def drobench_solvers() -> list[SolverEntry]:
    """The solvers."""
    return [
        SolverEntry(name=name, summary="A guest.", config=config, factory=Guest, accepts=(FiniteSum,))
        for name, config in (("guest", GuestConfig), ("strict_guest", StrictConfig))
    ]


@hookimpl
def drobench_datasets() -> list[DatasetEntry]:
    """The dataset."""
    provides = frozenset({"labels", "binary_labels"})
    return [DatasetEntry(name="guest", summary="Data.", config=GuestDataConfig, factory=load, provides=provides)]


@hookimpl
def drobench_problems() -> list[ProblemEntry]:
    """The problem."""
    needs = frozenset({"labels"})
    config = GuestProblemConfig
    return [ProblemEntry(name="guest", summary="Poses.", config=config, factory=GuestProblem, needs=needs)]
