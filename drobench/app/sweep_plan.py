"""The plan of a sweep: its cells, which of them are finished, and how long the others may take."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drobench.app.composer import Composer
from drobench.app.config import ConfigError, RunConfig, hydra_ready, resolve
from drobench.app.freshness import why_stale
from drobench.app.prepare import Prepared, prepare
from drobench.app.sweep_file import Sweep
from drobench.app.sweep_planner import Look, look_at_data
from drobench.registry import Catalogue
from drobench.results.record import Record
from drobench.results.store import ResultStore


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    label: str
    prepared: Prepared

    @property
    def config(self) -> RunConfig:
        """Its configuration."""
        return self.prepared.config

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.prepared.run_id


@dataclass(frozen=True)
class Plan:
    """What a sweep has done before and what is left to do."""

    finished: list[Cell]
    remaining: list[Cell]
    stale: dict[str, str] = field(default_factory=dict)
    """Why cells that are stored are among the remaining ones all the same, by id."""

    @property
    def run_ids(self) -> set[str]:
        """The ids of all cells."""
        return {cell.run_id for cell in (*self.finished, *self.remaining)}


def plan(sweep: Sweep, extra: Sequence[str], catalogue: Catalogue, results: Path, look: Look = look_at_data) -> Plan:
    """Compose every cell and see which are finished.

    Args:
        sweep: What the file says.
        extra: Overrides for all cells.
        catalogue: The plugins.
        results: The folder of results.
        look: Finds out about the data of the cells.
    """
    # Wherever a plugin goes, the results stay in their place.
    results = results.absolute()
    store = ResultStore(results)
    finished: list[Cell] = []
    remaining: list[Cell] = []
    stale: dict[str, str] = {}
    seen: set[str] = set()
    with hydra_ready():
        composer = Composer(catalogue)
        configs = [(words, resolve(composer.compose([*words, *extra]))) for words in sweep.cells]
    for words, config in configs:
        if any(word.startswith("results=") for word in (*words, *extra)):
            raise ConfigError("A sweep keeps all cells in one folder: use `--results DIR` instead of `results=DIR`.")
        config.results = str(results)
        if getattr(config.logger, "group", "") is None:
            config.logger.group = sweep.name
        if config.timeout is None:
            config.timeout = sweep.timeout
    datasets = look([config for _, config in configs], results)
    for words, config in configs:
        prepared = prepare(config, catalogue, datasets)
        cell = Cell(_label(words, sweep.cells), prepared)
        if cell.run_id in seen:
            raise ConfigError(f"The sweep has the cell {cell.label!r} twice: two combinations mean the same run.")
        seen.add(cell.run_id)
        stored = store.finished_record(cell.run_id)
        why = None
        if stored is not None:
            why = why_stale(stored, prepared.code_along(stored.others.get("route")), config.trust)
        (remaining if stored is None or why is not None else finished).append(cell)
        if why is not None:
            stale[cell.run_id] = why
    return Plan(finished, remaining, stale)


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
