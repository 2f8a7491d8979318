"""What the commands `run` and `rerun` do once there is a configuration."""

import sys
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from rich.console import Console

from drobench.app.config import from_yaml, register, resolve
from drobench.app.console import show_record
from drobench.app.one_run import run_cell
from drobench.errors import DrobenchError
from drobench.registry import load_catalogue
from drobench.results.record import FAILURES, Record
from drobench.results.store import ResultStore


class RunFailed(DrobenchError):
    """A run ended badly; its record says how."""

    exit_code = 1


class Progress:
    """A line that follows a run in a terminal, and stays away from files and pipes."""

    def __init__(self, console: Console) -> None:
        self.status = console.status("starting") if console.is_terminal else None
        self.rows = 0

    def __enter__(self) -> "Progress":
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def __call__(self, row: dict[str, Any]) -> None:
        """Show the newest evaluation."""
        self.rows += 1
        if self.status is not None:
            gap = "" if row["gap"] is None else f"  gap {row['gap']:.3e}"
            self.status.update(f"step {row['step']}  passes {row['passes']:.1f}  objective {row['objective']:.8g}{gap}")


def run_job(composed: DictConfig) -> float | None:
    """Compute one run for Hydra; returns the objective, which is what a Hydra sweeper minimises."""
    catalogue = load_catalogue()
    register(catalogue)
    config = resolve(composed)
    if config.logger.group is None:
        config.logger.group = _multirun()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    store = ResultStore(Path(config.results))
    with Progress(console) as progress:
        record = run_cell(config, catalogue, report=progress)
    show_record(console, record)
    if progress.rows == 0 and not config.trainer.distributed and record.status not in FAILURES:
        console.print(f"[dim]It was there already; `drobench rerun {record.short_id}` computes it again.[/dim]")
    console.print(f"[dim]{store.root / record.run_id}[/dim]", soft_wrap=True)
    if record.status in FAILURES:
        raise RunFailed(f"run {record.short_id} ended as {record.status}: {record.reason}")
    return None if record.iterates.last is None else record.iterates.last.objective


def _multirun() -> str | None:
    """Return a name that all jobs of one multirun share, in whatever processes they run; nothing for a single run."""
    if not HydraConfig.initialized() or HydraConfig.get().mode != RunMode.MULTIRUN:
        return None
    return f"multirun-{Path(HydraConfig.get().sweep.dir).name}"


def rerun(run_id: str, results: Path, console: Console) -> int:
    """Compute a stored run again and say whether it came out the same."""
    store = ResultStore(results)
    old = store.read(run_id)
    catalogue = load_catalogue()
    register(catalogue)
    config = from_yaml(store.config(run_id), catalogue)
    config.results = str(results)
    with Progress(console) as progress:
        new = run_cell(config, catalogue, again=True, report=progress)
    show_record(console, new)
    console.print(_comparison(old, new))
    return 1 if new.status in FAILURES else 0


def _comparison(old: Record, new: Record) -> str:
    if new.run_id != old.run_id:
        return (
            f"Not the same run any more: plugins or data have changed since {old.short_id}; stored as {new.short_id}."
        )
    if old.iterates.last is None or new.iterates.last is None:
        return f"Before: {old.status} ({old.reason}); now: {new.status}."
    before, after = old.iterates.last.objective, new.iterates.last.objective
    if before == after:
        return "The objective is the same as before, to the last bit."
    return f"The objective was {before!r} and is now {after!r}."
