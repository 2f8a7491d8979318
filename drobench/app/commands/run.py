"""`drobench run` and `drobench rerun`: compute a run, or do a stored one again."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from drobench.app.commands.parsing import AddCommand, add_results, results_of
from drobench.errors import DrobenchError

if TYPE_CHECKING:
    from omegaconf import DictConfig


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
    from drobench.app.hydra_job import Jobs, show_board
    from drobench.app.overrides import check_overrides, with_home
    from drobench.app.results_folder import set_home_in_environment
    from drobench.app.run_help import can_tell, help_text
    from drobench.harmless import harmless
    from drobench.registry import find_listing

    catalogue, state = find_listing()
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
    jobs = Jobs(typed.overrides, state)

    def job(composed: "DictConfig") -> float | None:
        return jobs.run(composed)

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
        if _is_hydras(error) or not (jobs.started or typed.multirun):
            raise ConfigError(explain(error, catalogue)) from error
        raise
    finally:
        if typed.multirun:
            show_board()
    return 0


def _is_hydras(error: Exception) -> bool:
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    return isinstance(error, HydraException | OmegaConfBaseException)


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
