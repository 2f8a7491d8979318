"""`drobench run` and `drobench rerun`: compute a run, or do a stored one again."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drobench.app.commands.parsing import AddCommand, add_results, results_of
from drobench.errors import DrobenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omegaconf import DictConfig
    from rich.console import Console

    from drobench.app.config import RunConfig
    from drobench.app.loading import LastDataset
    from drobench.results.record import Record


class RunFailed(DrobenchError):
    """A run ended badly; its record says how."""

    exit_code = 1


def add_commands(add: AddCommand) -> None:
    """Add the commands of this family."""
    # Listed for the help text only: `drobench.app.cli` hands `run` to Hydra before the parser sees it.
    add("run", None, "compute one run, or with -m every combination (Hydra)", "drobench run solver=scgd seed=1")
    again = add("rerun", rerun, "do a run again and compare", "drobench rerun 6f9b")
    again.add_argument("run_id", help="the run's id, or the beginning of it")
    add_results(again)


def run_with_hydra(words: list[str]) -> int:
    """Be the Hydra application that computes one run, or with `-m` several.

    Names and settings come from the list of plugins, so that mistakes, help and completion cost no import of theirs.
    """
    import hydra
    from hydra._internal.utils import get_args_parser

    from drobench.app.config import (
        CONFIG_NAME,
        HYDRA_VERSION_BASE,
        ConfigError,
        data_dir,
        explain,
        group_names,
        register,
    )
    from drobench.app.overrides import check_overrides, with_home
    from drobench.app.results_folder import set_home_in_environment
    from drobench.app.run_help import can_tell, help_text
    from drobench.harmless import harmless
    from drobench.registry import list_catalogue

    catalogue = list_catalogue()
    for trouble in catalogue.troubles:
        print(f"drobench: not used: {harmless(str(trouble))}", file=sys.stderr)
    register(catalogue)
    words = with_home(words)
    set_home_in_environment()
    # Hydra's own parser, since its flags may have values too.
    typed = get_args_parser().parse_args(words)
    exclusive = [typed.run, typed.multirun, typed.cfg, typed.info, typed.shell_completion]
    if sum(bool(chosen) for chosen in exclusive) > 1:
        raise ConfigError("Only one of --run, --multirun, --cfg, --info and --shell-completion can be asked for.")
    if not typed.shell_completion:
        check_overrides(typed.overrides, group_names(catalogue))
    sys.argv = ["drobench-run", *words]
    # Hydra would print errors and exit by itself; this way they arrive here and can be explained.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    kept: dict[str, LastDataset] = {}
    started = False

    def job(composed: "DictConfig") -> float | None:
        nonlocal started
        started = True
        return run_job(composed, kept, typed.overrides)

    application = hydra.main(
        version_base=HYDRA_VERSION_BASE, config_path=str(data_dir("conf")), config_name=CONFIG_NAME
    )(job)
    try:
        if can_tell(typed):
            print(help_text(typed, catalogue))
        else:
            application()
    except DrobenchError:
        raise
    except Exception as error:
        # Before the job is there, whatever goes wrong is the composition. Those of a multirun may be elsewhere.
        if _is_hydras(error) or not (started or typed.multirun):
            raise ConfigError(explain(error, catalogue)) from error
        raise
    finally:
        if typed.multirun:
            _show_board()
    return 0


def _is_hydras(error: Exception) -> bool:
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    return isinstance(error, HydraException | OmegaConfBaseException)


def run_job(composed: "DictConfig", kept: "dict[str, LastDataset]", typed: "Sequence[str]") -> float | None:
    """Compute one run for Hydra.

    Args:
        composed: Its configuration, maybe of a list of plugins.
        kept: What is kept from one job to the next of the same process.
        typed: The overrides as they were typed, of which a multirun makes those of its jobs.

    Returns:
        The objective, which is what a Hydra sweeper minimises.

    Raises:
        RunFailed: If the run did.
    """
    from drobench.app.config import register, resolve
    from drobench.app.listed_config import of_plugins, refuse_by_list
    from drobench.registry import load_catalogue

    # Before anything heavy is imported.
    refuse_by_list(composed)

    from drobench.app.cell import run_cell
    from drobench.app.console import LiveLine, open_console
    from drobench.app.loading import LastDataset
    from drobench.app.multirun import group_of_job, is_multirun, label_of_job, note_run
    from drobench.results.record import FAILURES

    catalogue = load_catalogue()
    register(catalogue)
    config = resolve(of_plugins(composed, catalogue))
    if getattr(config.logger, "group", "") is None:
        config.logger.group = group_of_job()
    console = open_console(width=120)
    with LiveLine(console) as line:
        datasets = kept.setdefault("datasets", LastDataset())
        record = run_cell(config, catalogue, on_evaluation=line, datasets=datasets)
    there = line.rows == 0 and not config.trainer.distributed and record.status not in FAILURES
    if is_multirun():
        note_run(record.run_id)
        _show_line(console, record, label_of_job(typed), there=there)
    else:
        _show_run(console, record, config, there=there)
    if record.status in FAILURES:
        raise RunFailed(f"run {record.short_id} ended as {record.status}: {record.reason}")
    return None if record.iterates.last is None else record.iterates.last.objective


def _show_line(console: "Console", record: "Record", label: str, *, there: bool) -> None:
    """Print a run of a multirun: the board at the end says more of all of them."""
    from drobench.app.record_view import show_line

    show_line(console, record, label, "was there already" if there else None)


def _show_run(console: "Console", record: "Record", config: "RunConfig", *, there: bool) -> None:
    from rich.markup import escape

    from drobench.app.identity import settings_beyond_defaults
    from drobench.app.record_view import show_record
    from drobench.results.curves import StoredCurves
    from drobench.results.store import ResultStore

    parts = {"solver": config.solver, "problem": config.problem, "dataset": config.dataset}
    chosen = {name: settings_beyond_defaults(part) for name, part in parts.items()}
    show_record(console, record, StoredCurves(ResultStore(Path(config.results))).ending(record), settings=chosen)
    if there:
        console.print(f"[dim]It was there already; `drobench rerun {record.short_id}` computes it again.[/dim]")
    console.print(f"[dim]{escape(str(Path(config.results) / record.run_id))}[/dim]", soft_wrap=True)


def _show_board() -> None:
    """Print the comparison of the runs of the multirun that just ended, also where some of them failed."""
    from rich.markup import escape

    from drobench.app.multirun import take_begun

    begun = take_begun()
    if begun is None or not (wanted := set(begun.runs())):
        return

    from drobench.app.console import open_console
    from drobench.app.leaderboard_view import show_leaderboard
    from drobench.app.stored_comparison import compare_stored
    from drobench.results.comparison.leaderboard import NothingToCompare
    from drobench.results.store import ResultStore

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


def rerun(options: argparse.Namespace) -> int:
    """Compute a stored run again, beside it, and say whether it came out the same: 0 if so, 1 if not."""
    from rich.markup import escape

    from drobench.app.cell import OPTIMA
    from drobench.app.config import register
    from drobench.app.console import LiveLine, open_console
    from drobench.app.verification import repeated
    from drobench.registry import load_catalogue
    from drobench.results.store import ResultStore

    console, store = open_console(), ResultStore(results_of(options))
    old = store.read(options.run_id)
    catalogue = load_catalogue()
    register(catalogue)
    folder = store.rerun_folder(old.run_id)
    with LiveLine(console) as line:
        verdict = repeated(old, store, catalogue, folder, store.root / OPTIMA, on_evaluation=line)
    if verdict.changed is not None:
        console.print(f"[yellow]note[/yellow]  {escape(verdict.changed)}", soft_wrap=True)
    for mismatch in verdict.mismatches:
        console.print(f"[red]differs[/red]  {escape(str(mismatch))}", soft_wrap=True)
    if verdict.unverified is not None:
        console.print(f"[yellow]open[/yellow]  {escape(verdict.unverified)}", soft_wrap=True)
    words = "came out as recorded, metrics, counts and curve" if verdict.confirmed else "was not confirmed"
    console.print(
        f"Run {old.short_id} {words}. The stored one is as it was; the repetition is in {escape(str(folder))}.",
        soft_wrap=True,
    )
    return 0 if verdict.confirmed else 1
