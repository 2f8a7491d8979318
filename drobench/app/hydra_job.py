"""The job that Hydra calls, once for a run and for each run of a multirun, and what is printed of it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drobench.app.config import resolve
from drobench.app.console import LiveLine, open_console
from drobench.app.identity import default_settings
from drobench.app.known_runs import KnownRuns, stamps_of
from drobench.app.listed_config import of_plugins, refuse_by_list
from drobench.app.multirun import group_of_job, is_multirun, label_of_job, note_run, take_begun
from drobench.app.record_view import show_line, show_record
from drobench.app.results_folder import at_home
from drobench.errors import DrobenchError
from drobench.registry import Catalogue, load_catalogue, packages_here, state_here
from drobench.results.record import FAILURES, Record
from drobench.results.store import ResultStore

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from rich.console import Console

    from drobench.app.config import RunConfig
    from drobench.app.loading import LastDataset

_SHOWN = ("solver", "problem", "dataset")


class RunFailed(DrobenchError):
    """A run ended badly; its record says how."""

    exit_code = 1


@dataclass
class Jobs:
    """What the jobs of one command share, as far as they are in the same process.

    Attributes:
        typed: The overrides as they were typed, of which a multirun makes those of its jobs.
        state: The checksum of what is installed; none: it is not known.
        process: The one that the checksum is of.
        datasets: The data of the job before, once there was one.
        started: Whether there was one.
    """

    typed: Sequence[str]
    state: str | None
    process: int = field(default_factory=os.getpid)
    datasets: "LastDataset | None" = None
    started: bool = False

    def run(self, composed: "DictConfig") -> float | None:
        """Compute one run, or show it where it is known already.

        Args:
            composed: Its configuration, maybe of a list of plugins.

        Returns:
            The objective, which is what a Hydra sweeper minimises.

        Raises:
            RunFailed: If the run did.
        """
        self.started = True
        refuse_by_list(composed)
        known = KnownRuns.of(composed, self.state if os.getpid() == self.process else None)
        record = None if known is None else known.record()
        there = record is not None
        console = open_console(width=120)
        # Nothing heavy is imported before this line.
        if record is None:
            record, there = self._computed(composed, console, known)
        place = at_home(Path(composed.results))
        if is_multirun():
            note_run(record.run_id)
            show_line(console, record, label_of_job(self.typed), "was there already" if there else None)
        else:
            _show_run(console, record, place, _defaults(composed), there=there)
        if record.status in FAILURES:
            raise RunFailed(f"run {record.short_id} ended as {record.status}: {record.reason}")
        return None if record.iterates.last is None else record.iterates.last.objective

    def _computed(self, composed: "DictConfig", console: "Console", known: KnownRuns | None) -> tuple[Record, bool]:
        """Go the long way; return the record, and whether it was there."""
        from drobench.app.cell import run_cell
        from drobench.app.loading import LastDataset

        catalogue = load_catalogue()
        config = resolve(of_plugins(composed, catalogue))
        if getattr(config.logger, "group", "") is None:
            config.logger.group = group_of_job()
        stamps = None if known is None else stamps_of(catalogue.dataset(config.dataset.name).entry, config.dataset)
        self.datasets = self.datasets or LastDataset()
        with LiveLine(console) as line:
            record = run_cell(config, catalogue, on_evaluation=line, datasets=self.datasets)
        route = record.others.get("route") or []
        if known is not None and stamps is not None and self._is_as_it_was(config, catalogue, route):
            known.note(record, stamps)
        return record, line.rows == 0 and not config.trainer.distributed and record.status not in FAILURES

    def _is_as_it_was(self, config: "RunConfig", catalogue: Catalogue, route: Sequence[str]) -> bool:
        """Whether nothing was edited meanwhile, and all of the code that took part is under the checksum."""
        from drobench.app.code import homes_of, plugins_of, steps_of

        took_part = {**plugins_of(config, catalogue), **steps_of(route, catalogue)}.values()
        packages = {module.partition(".")[0] for plugin in took_part for module in homes_of(plugin)}
        return packages <= packages_here() and state_here() == self.state


def _show_run(
    console: "Console", record: Record, results: Path, defaults: Mapping[str, Mapping[str, Any]], *, there: bool
) -> None:
    from rich.markup import escape

    from drobench.results.curves import StoredCurves

    settings = {
        part: {name: value for name, value in getattr(record, part).config.items() if value != known.get(name)}
        for part, known in defaults.items()
    }
    show_record(console, record, StoredCurves(ResultStore(results)).ending(record), settings=settings)
    if there:
        console.print(f"[dim]It was there already; `drobench rerun {record.short_id}` computes it again.[/dim]")
    console.print(f"[dim]{escape(str(results / record.run_id))}[/dim]", soft_wrap=True)


def _defaults(composed: "DictConfig") -> dict[str, dict[str, Any]]:
    """Return the defaults of what is shown of a run."""
    from omegaconf import OmegaConf

    return {part: default_settings(cast(type, OmegaConf.get_type(composed, part))) for part in _SHOWN}


def show_board() -> None:
    """Print the comparison of the runs of the multirun that just ended, also where some of them failed."""
    from rich.markup import escape

    begun = take_begun()
    if begun is None or not (wanted := set(begun.runs())):
        return

    from drobench.app.leaderboard_view import show_leaderboard
    from drobench.app.stored_comparison import compare_stored
    from drobench.results.comparison.leaderboard import NothingToCompare

    console = open_console()
    try:
        compared = compare_stored(
            ResultStore(begun.results),
            lambda trouble: console.print(f"[yellow]left out:[/yellow] {escape(trouble.message)}", soft_wrap=True),
            keep=lambda records: [record for record in records if record.run_id in wanted],
        )
    except NothingToCompare as error:
        console.print(f"[yellow]{escape(str(error))}[/yellow]")
    else:
        show_leaderboard(console, compared.leaderboard)
