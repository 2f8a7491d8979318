"""Guests for the tests of this folder: solvers that do one thing, and a plugin package written to a folder."""

import dataclasses
import json
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
from torch import Tensor

from drobench.app.composer import Composer
from drobench.app.config import RunConfig, hydra_ready, register, resolve
from drobench.files import file_sha256
from drobench.objective.forms import FiniteSum
from drobench.registry import (
    Catalogue,
    DatasetEntry,
    ProblemEntry,
    Registered,
    SolverEntry,
    Source,
    build_catalogue,
    hookimpl,
)
from drobench.results.record import Component, DatasetComponent, Iterate, Iterates, Record, Status, content_id
from drobench.results.sealing import sealed
from drobench.results.store import ResultStore
from drobench.solver import Solver

SMALL = (
    "dataset=synthetic",
    "dataset.rows=60",
    "dataset.features=3",
    "dataset.split=[0.6,0.2,0.2]",
    "problem.l2=0.1",
    "budget.passes=null",
    "budget.steps=5",
)
"""An instance on which everything takes milliseconds."""
# The beginning of a sweep file of small cells.
HEAD = "overrides: [" + ", ".join(f'"{word}"' for word in SMALL) + "]\n"

OWN = Source(
    plugin="drobench_plugins",
    distribution="drobench",
    version=metadata.version("drobench"),
    loader=lambda: import_module("drobench_plugins.hooks"),
)


@dataclass
class GuestConfig:
    """Settings of a guest."""

    rate: float = 0.1


@dataclass(frozen=True)
class GuestState:
    """Where a guest stands."""

    point: Tensor
    steps: int


Act = Callable[[GuestState, Any], Tensor]


class GuestSolver(Solver[GuestState]):
    """A solver whose step is whatever function it is given: from state and oracle to the next point."""

    def __init__(self, act: Act) -> None:
        self.act = act

    def init(self, start: Tensor, oracle: Any, communicator: Any) -> GuestState:
        return GuestState(start, 0)

    def step(self, state: GuestState, oracle: Any, communicator: Any) -> GuestState:
        return GuestState(self.act(state, oracle), state.steps + 1)

    def solution(self, state: GuestState) -> Tensor:
        return state.point


def gradient_step(state: GuestState, oracle: Any) -> Tensor:
    """Do what a sound solver would: one full gradient step."""
    _, gradients = oracle.estimate(state.point[None], oracle.draw())
    return oracle.prox(state.point - 0.1 * gradients[0], 0.1)


def guest(name: str, act: Act = gradient_step, **changes: Any) -> SolverEntry:
    """Return the entry of a solver that does what `act` does."""
    fields = {
        "name": name,
        "summary": f"What {name} is.",
        "reference": "nowhere",
        "config": GuestConfig,
        "factory": lambda config: GuestSolver(act),
        "accepts": (FiniteSum,),
    }
    return SolverEntry(**(fields | changes))


def uphill_step(state: GuestState, oracle: Any) -> Tensor:
    """Do the opposite of what a sound solver would."""
    _, gradients = oracle.estimate(state.point[None], oracle.draw())
    return state.point + 0.1 * gradients[0]


def contradictory_table(folder: Path) -> tuple[str, ...]:
    """Write a table with both labels for every row, and return the words that choose CVaR on it: zero is optimal."""
    file = folder / "contradictory.csv"
    lines = [f"{x},{z},{label}" for x, z in ((1, 0), (0, 1), (2, 1), (1, 3), (-1, 2)) for label in (0, 1)]
    file.write_text("\n".join(["x,z,label", *lines]) + "\n")
    data = ("dataset=tabular", f"dataset.path={file}", "dataset.label=label", "dataset.split=[1.0,0.0,0.0]")
    return ("problem=cvar_classification", "problem.l2=0.1", *data, "budget.passes=null", "budget.steps=5")


def catalogue_with(
    *,
    solvers: tuple[SolverEntry, ...] = (),
    problems: tuple[ProblemEntry, ...] = (),
    datasets: tuple[DatasetEntry, ...] = (),
    version: str = "1.0",
) -> Catalogue:
    """Return what is installed, and a plugin `guest` of the distribution `stranger` beside it."""
    plugin = SimpleNamespace(
        drobench_solvers=hookimpl(lambda: list(solvers)),
        drobench_problems=hookimpl(lambda: list(problems)),
        drobench_datasets=hookimpl(lambda: list(datasets)),
    )
    source = Source(plugin="guest", distribution="stranger", version=version, loader=lambda: plugin)
    catalogue = build_catalogue([OWN, source])
    assert not catalogue.troubles
    return catalogue


def with_solver(catalogue: Catalogue, name: str, **changes: Any) -> Catalogue:
    """Return the catalogue with the entry of one solver changed, as if its package contained that."""
    found = catalogue.solver(name)
    entry = dataclasses.replace(found.entry, **changes)
    changed = Registered(entry, found.plugin, found.distribution, found.version)
    return dataclasses.replace(catalogue, solvers={**catalogue.solvers, name: changed})


_COMPOSERS: dict[int, Composer] = {}


def _composer(catalogue: Catalogue) -> Composer:
    # A composer holds its catalogue, so that no other one gets its number.
    return _COMPOSERS.setdefault(id(catalogue), Composer(catalogue))


def configured(catalogue: Catalogue, results: Path, *words: str, base: tuple[str, ...] = SMALL) -> RunConfig:
    """Return the configuration of a small run; choices of plugins that were composed before are remembered."""
    register(catalogue)
    with hydra_ready():
        config = resolve(_composer(catalogue).compose([*base, *words]))
    config.results = str(results)
    return config


def altered(folder: Path, run_id: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Write another number, or another text, into a stored record, and seal it again as a forger would."""
    file = folder / run_id / "record.json"
    content = json.loads(file.read_text())
    change(content)
    others = ("curve.parquet", "solution.safetensors", "config.yaml")
    checksums = {name: file_sha256(folder / run_id / name) for name in others}
    file.write_text(sealed(Record.from_mapping(content), checksums))


def resealed(folder: Path, run_id: str) -> None:
    """Seal a run again after one of its other files was changed."""
    altered(folder, run_id, lambda content: None)


def stored_runs(root: Path, solvers: tuple[str, ...] = ("alpha", "beta"), seeds: int = 2) -> ResultStore:
    """Store runs that were never computed."""
    store = ResultStore(root)
    curve = polars.DataFrame({"step": [0, 10], "passes": [0.0, 1.0], "oracle_calls": [0, 9], "objective": [2.0, 1.0]})
    for solver in solvers:
        for seed in range(seeds):
            record = Record(
                run_id=content_id({"of": [solver, seed]}),
                status=Status.BUDGET_SPENT,
                seed=seed,
                started_at="2026-05-01T12:00:00+00:00",
                solver=Component(name=solver, config={}),
                problem=Component(name="robust", config={}),
                dataset=DatasetComponent(name="tiny", config={}, sha256="a" * 64),
                model={"name": "linear"},
                budget={"passes": 1},
                trainer={},
                iterates=Iterates(last=Iterate(objective=1.0, feasible=True)),
            )
            store.write(record, curve, {}, "seed: 0\n")
    return store


def records_in(results: Path) -> list[Path]:
    """Return the folders of the runs that are recorded."""
    return sorted(file.parent for file in results.glob("*/record.json")) if results.is_dir() else []


def write_package(folder: Path, module: str, source: str, distribution: str = "stranger", version: str = "1.0") -> Path:
    """Write an installed package, as pip would leave it: a module and the metadata with its entry point."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(textwrap.dedent(source))
    information = folder / f"{distribution}-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (information / "entry_points.txt").write_text(f"[drobench]\n{module} = {module}\n")
    return folder


def forget_module(name: str) -> None:
    """Undo the import of a package that was only there for a test."""
    sys.modules.pop(name, None)


MISBEHAVING = '''
"""Solvers that misbehave, each in one way, a sound one beside them, and a dataset that cannot be had."""

import collections
import ctypes
import errno
import itertools
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from drobench import DatasetEntry, SolverEntry, hookimpl
from drobench.data.build import build_dataset
from drobench.data.dataset import DatasetConfig
from drobench.errors import DrobenchError
from drobench.objective.forms import FiniteSum
from drobench.solver import Solver


@dataclass
class GuestConfig:
    gate: str = ""
    """A file; the waiting solver waits as long as it exists, and writes its process id beside it."""


@dataclass(frozen=True)
class GuestState:
    point: torch.Tensor
    steps: int


class Guest(Solver[GuestState]):
    def __init__(self, act, config):
        self.act = act
        self.config = config

    def init(self, start, oracle, communicator) -> GuestState:
        return GuestState(start, 0)

    def step(self, state, oracle, communicator):
        self.act(self.config)
        _, gradients = oracle.estimate(state.point[None], oracle.draw())
        return GuestState(state.point - 0.1 * gradients[0], state.steps + 1)

    def solution(self, state):
        return state.point


def behave(config):
    pass


def sleep(config):
    while True:
        time.sleep(0.05)


def spin(config):
    # A loop inside the interpreter's C code: no Python signal handler ever gets its turn.
    collections.deque(itertools.repeat(0), maxlen=0)


def exit_at_once(config):
    os._exit(3)


def exit_by_exception(config):
    sys.exit(0)


def exit_unseen(config):
    # Not through Python, which therefore has no say.
    ctypes.CDLL(None)._exit(0)


def crash(config):
    os.kill(os.getpid(), 11)


def leave(config):
    os.chdir("/")


def start_others(config):
    # One that stays in the group, and one that goes its own way and whose parent is gone.
    subprocess.Popen(["sleep", "4711"])
    subprocess.Popen(["sh", "-c", "setsid sleep 4711 &"])


def fill_disk(config):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def say_too_much(config):
    raise ValueError("\\udc80\\x1b[2J" + "x" * 1_000_000)


def stop(config):
    raise StopIteration


def fail(config):
    raise ValueError("the guest has had enough")


def wait(config):
    gate = Path(config.gate)
    gate.with_suffix(".pid").write_text(str(os.getpid()))
    while gate.exists():
        time.sleep(0.02)


def unavailable(config):
    raise DrobenchError("The guest's data are not here. Fetch them first.")


@dataclass
class OddConfig(DatasetConfig):
    way: str = ""


def odd(config):
    if config.way == "exit":
        sys.exit(0)
    if config.way == "exit at once":
        os._exit(0)
    if config.way == "exit unseen":
        exit_unseen(config)
    if config.way == "crash":
        crash(config)
    if config.way == "sleep":
        time.sleep(4711)
    if config.way == "no memory":
        raise MemoryError("cannot allocate 10**12 bytes")
    seed = os.getpid() if config.way == "differ" else 7
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(60, 3, generator=generator)
    return build_dataset("odd", features.numpy(), (features[:, 0] > 0).long().numpy(), config)


@hookimpl
def drobench_solvers():
    acts = {"sound": behave, "sleeping": sleep, "spinning": spin, "exiting": exit_at_once, "raising": fail,
            "waiting": wait, "leaving": exit_by_exception, "vanishing": exit_unseen, "crashing": crash,
            "wandering": leave, "breeding": start_others, "filling": fill_disk, "shouting": say_too_much,
            "stopping": stop}
    return [
        SolverEntry(name=name, summary=f"A guest, {name}.", config=GuestConfig, accepts=(FiniteSum,),
                    factory=lambda config, act=act: Guest(act, config))
        for name, act in acts.items()
    ]


@hookimpl
def drobench_datasets():
    provides = frozenset({"labels", "binary_labels"})
    return [
        DatasetEntry(name="unavailable", summary="Never here.", config=DatasetConfig, factory=unavailable,
                     provides=provides),
        DatasetEntry(name="odd", summary="Misbehaves on request.", config=OddConfig, factory=odd, provides=provides),
    ]
'''
"""A plugin for sweeps, whose cells are computed in processes of their own."""


def unsealed(folder: Path) -> None:
    """Take the checksums out of a stored run, so that its other files can be changed."""
    file = folder / "record.json"
    content = json.loads(file.read_text())
    for name in ("files", "checksum", "asked", "code", "code_parts"):
        content.pop(name, None)
    file.write_text(json.dumps(content))
