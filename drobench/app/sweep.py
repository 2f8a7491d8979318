"""Sweeps: many cells from one file, finished ones skipped, each in a process of its own.

A sweep file has a `title`, a `description`, common `overrides`, a `grid` of values per key, and optionally a list of
`parts` with further `overrides` and `grid`s, whose cells are joined. A value of a grid that is a mapping sets several
keys together, and the grid's key is then only a name for them. With `include` it consists of the cells of other
sweeps, to which its own overrides are added. A cell that fails, hangs or dies costs no other
cell anything.
"""

import contextlib
import itertools
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drobench.app.composer import Composer
from drobench.app.config import (
    ConfigError,
    RunConfig,
    as_override,
    data_dir,
    hydra_ready,
    resolve,
    to_yaml,
)
from drobench.app.identity import identify
from drobench.app.one_run import draft_of, fail_cell, usable_dataset
from drobench.app.worker import work
from drobench.errors import DrobenchError
from drobench.registry import Catalogue
from drobench.registry.hints import did_you_mean
from drobench.results.record import Record, Status, short_id
from drobench.results.store import ResultStore, RunBusy
from drobench.training.loggers import check_logger

_POLL_SECONDS = 0.05
_GRACE_SECONDS = 15.0
_SWEEP_KEYS = {"title", "description", "overrides", "grid", "parts", "timeout", "include"}
_PART_KEYS = {"overrides", "grid"}


@dataclass(frozen=True)
class Sweep:
    """A sweep file, expanded."""

    title: str
    description: str
    cells: list[list[str]]
    """The overrides of each cell."""
    timeout: float | None
    name: str
    """Of the file."""


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    label: str
    config: RunConfig
    run_id: str


@dataclass(frozen=True)
class Plan:
    """What a sweep has done before and what is left to do."""

    finished: list[Cell]
    remaining: list[Cell]

    @property
    def run_ids(self) -> set[str]:
        """The ids of all cells."""
        return {cell.run_id for cell in (*self.finished, *self.remaining)}


def find_sweep(name: str) -> Path:
    """Return the file of a sweep given by name (from `sweeps/`) or by path."""
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise DrobenchError(f"There is no sweep file {name!r}. Check the path.")
        return Path(name)
    known = {file.stem: file for file in sorted(data_dir("sweeps").glob("*.yaml"))}
    if name not in known:
        raise DrobenchError(
            f"There is no sweep called {name!r}.{did_you_mean(name, known)} Sweeps: {', '.join(known)}; "
            "or give the path of a YAML file."
        )
    return known[name]


def load_sweep(path: Path) -> Sweep:
    """Read and expand a sweep file."""
    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except (OmegaConfBaseException, yaml.YAMLError, ValueError, OSError) as error:
        raise DrobenchError(f"Sweep file {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise DrobenchError(f"Sweep file {path} must be a mapping with `overrides` and `grid`; found {content!r}.")
    _check_keys(path, content, _SWEEP_KEYS)
    timeout = content.get("timeout")
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise DrobenchError(f"Sweep file {path}: timeout must be seconds above 0; found {timeout!r}.")
    if "include" in content:
        return _joined(path, content, timeout)
    parts = content.get("parts") or [{}]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise DrobenchError(f"Sweep file {path}: parts must be a list of mappings; found {parts!r}.")
    common = _overrides(path, content)
    cells = []
    for part in parts:
        _check_keys(path, part, _PART_KEYS)
        grid = {**_grid(path, content), **_grid(path, part)}
        for combination in itertools.product(*grid.values()):
            chosen = [word for key, value in zip(grid, combination, strict=True) for word in _chosen(key, value)]
            words = [*common, *_overrides(path, part), *chosen]
            cells.append(_groups_first(words))
    return Sweep(str(content.get("title", path.stem)), str(content.get("description", "")), cells, timeout, path.stem)


def _joined(path: Path, content: dict[str, Any], timeout: float | None) -> Sweep:
    """Return the cells of the included sweeps, with the overrides of this one after their own."""
    names = content["include"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise DrobenchError(f"Sweep file {path}: include must list names of sweeps; found {names!r}.")
    beside = sorted({"grid", "parts"} & set(content))
    if beside:
        raise DrobenchError(
            f"Sweep file {path}: include leaves no room for {' and '.join(beside)}. Use one or the other."
        )
    files = [find_sweep(name) for name in names]
    if path.resolve() in [file.resolve() for file in files]:
        raise DrobenchError(f"Sweep file {path} includes itself.")
    included = [load_sweep(file) for file in files]
    further = _overrides(path, content)
    cells = [_groups_first([*cell, *further]) for sweep in included for cell in sweep.cells]
    # Where an override replaces what a grid went through, cells that differed before are now one.
    cells = [list(words) for words in dict.fromkeys(tuple(cell) for cell in cells)]
    longest = max((sweep.timeout for sweep in included if sweep.timeout is not None), default=None)
    title, description = str(content.get("title", path.stem)), str(content.get("description", ""))
    return Sweep(title, description, cells, timeout or longest, path.stem)


def _groups_first(words: list[str]) -> list[str]:
    """Return the last override of each key, choices of groups first: such a choice would undo a setting made for it."""
    last = {word.split("=", 1)[0]: word for word in words}
    return sorted(last.values(), key=lambda word: "." in word.split("=", 1)[0])


def _overrides(path: Path, content: dict[str, Any]) -> list[str]:
    words = content.get("overrides") or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise DrobenchError(f"Sweep file {path}: overrides must be a list of KEY=VALUE texts; found {words!r}.")
    return words


def _grid(path: Path, content: dict[str, Any]) -> dict[str, list[Any]]:
    grid = content.get("grid") or {}
    if not isinstance(grid, dict):
        raise DrobenchError(f"Sweep file {path}: grid must map keys to lists of values; found {grid!r}.")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise DrobenchError(f"Sweep file {path}: grid key {key!r} must list its values; found {values!r}.")
    return grid


def _chosen(key: str, value: Any) -> list[str]:
    """Return the overrides that one value of a grid stands for."""
    settings = value if isinstance(value, dict) else {key: value}
    return [f"{name}={as_override(setting)}" for name, setting in settings.items()]


def _check_keys(path: Path, content: dict[str, Any], allowed: set[str]) -> None:
    for key in content:
        if key not in allowed:
            hint = did_you_mean(str(key), allowed)
            raise DrobenchError(f"Sweep file {path}: unknown key {key!r}.{hint} Keys are {', '.join(sorted(allowed))}.")


def plan(sweep: Sweep, extra: Sequence[str], catalogue: Catalogue, results: Path) -> Plan:
    """Compose every cell and see which are finished."""
    store = ResultStore(results)
    finished: list[Cell] = []
    remaining: list[Cell] = []
    seen: set[str] = set()
    with hydra_ready():
        composer = Composer(catalogue)
        configs = [(words, resolve(composer.compose([*words, *extra]))) for words in sweep.cells]
    for words, config in configs:
        if any(word.startswith("results=") for word in (*words, *extra)):
            raise ConfigError("A sweep keeps all cells in one folder: use `--results DIR` instead of `results=DIR`.")
        check_logger(config.logger)
        config.results = str(results)
        if config.logger.group is None:
            config.logger.group = sweep.name
        if config.timeout is None:
            config.timeout = sweep.timeout
        cell = Cell(_label(words, sweep.cells), config, _identify(config, catalogue))
        if cell.run_id in seen:
            raise ConfigError(f"The sweep has the cell {cell.label!r} twice: two combinations mean the same run.")
        seen.add(cell.run_id)
        (finished if store.finished(cell.run_id) else remaining).append(cell)
    return Plan(finished, remaining)


def _identify(config: RunConfig, catalogue: Catalogue) -> str:
    return identify(config, catalogue, "" if (dataset := usable_dataset(config, catalogue)) is None else dataset.sha256)


def _label(words: list[str], cells: list[list[str]]) -> str:
    """Return what distinguishes this cell from the others."""
    common = set(cells[0]).intersection(*cells) if len(cells) > 1 else set()
    return " ".join(word for word in words if word not in common) or "the only cell"


def estimate_seconds(cells: Sequence[Cell], records: Sequence[Record]) -> tuple[float, int]:
    """Return the expected seconds of the cells that resemble recorded runs, and the number of cells that do not."""
    durations: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        if record.seconds.total is not None:
            key = (record.solver.name, record.problem.name, record.dataset.name)
            durations.setdefault(key, []).append(record.seconds.total)
    known, unknown = 0.0, 0
    for cell in cells:
        config = cell.config
        times = durations.get((config.solver.name, config.problem.name, config.dataset.name))
        if times:
            known += statistics.median(times)
        elif config.budget.seconds is not None:
            known += config.budget.seconds
        else:
            unknown += 1
    return known, unknown


@dataclass
class _Running:
    cell: Cell
    process: ForkServerProcess
    log: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


def execute(
    cells: Sequence[Cell], catalogue: Catalogue, jobs: int, done: Callable[[Cell, Record], None]
) -> list[Record]:
    """Compute the cells, `jobs` at a time; `done` is called as each one ends. Ctrl-C ends all of them, unrecorded."""
    # Workers are forked from a server that has imported everything and computed nothing: 0.03 s instead of 6.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["drobench.app.worker"])
    waiting = list(reversed(cells))
    running: list[_Running] = []
    records = []
    with _killing(running):
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_start(context, waiting.pop()))
            time.sleep(_POLL_SECONDS)
            for job in list(running):
                ended = _ended(job, catalogue)
                if ended is not None:
                    running.remove(job)
                    records.append(ended)
                    done(job.cell, ended)
    return records


def _start(context: multiprocessing.context.ForkServerContext, cell: Cell) -> _Running:
    log = Path(cell.config.results) / ".logs" / f"{short_id(cell.run_id)}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    process = context.Process(target=work, args=(to_yaml(cell.config), str(log)))
    process.start()
    return _Running(cell, process, log)


def _ended(job: _Running, catalogue: Catalogue) -> Record | None:
    """Return the record of a job that has ended, by itself or because its time was up; else nothing."""
    timeout = job.cell.config.timeout
    if job.process.is_alive():
        if timeout is None or job.seconds < timeout:
            return None
        _kill(job.process)
        return _given_up(job, catalogue, f"timed out after {timeout:g} s; output in {job.log}")
    job.process.join()
    store = ResultStore(Path(job.cell.config.results))
    if job.process.exitcode == 0:
        return store.read(job.cell.run_id)
    code = job.process.exitcode
    return _given_up(job, catalogue, f"its process ended with code {code}; output in {job.log}")


def _given_up(job: _Running, catalogue: Catalogue, reason: str) -> Record:
    """Record a cell as failed, unless somebody else is computing it: then it is theirs to record."""
    try:
        return fail_cell(job.cell.config, catalogue, reason)
    except RunBusy as error:
        return draft_of(job.cell.config, catalogue).record(Status.SKIPPED, str(error))


@contextlib.contextmanager
def _killing(running: list[_Running]) -> Iterator[None]:
    """Leave no worker behind."""
    try:
        yield
    finally:
        for job in running:
            _kill(job.process)


def _kill(process: ForkServerProcess) -> None:
    """End a worker: first politely, since it may have ranks to end; a hanging one has no say."""
    process.terminate()
    process.join(_GRACE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


def summary(records: Sequence[Record]) -> dict[Status, int]:
    """Return how many records have each status."""
    return {status: count for status in Status if (count := sum(record.status is status for record in records))}
