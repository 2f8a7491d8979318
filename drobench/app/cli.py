"""The command line. Each command imports what it needs when it runs, so that `drobench --help` is instant."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drobench.errors import DrobenchError

if TYPE_CHECKING:
    from rich.console import Console

_DESCRIPTION = "Benchmarks for distributionally robust and heavily constrained learning."
_EPILOG = """examples:
  drobench sweep quickstart                  the main job: embedded data, no network, about a minute
  drobench run solver=gcivr problem=kl_classification dataset=breast_cancer seed=3
  drobench run -m solver=gcivr,scgd,unconstrained 'seed=range(5)'
  drobench leaderboard
"""
_EXIT_FAILED, _EXIT_INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Everything after `run` belongs to Hydra, flags and help included.
    if words[:1] == ["run"]:
        sys.exit(_guarded(_run, words[1:]))
    sys.exit(_guarded(_parse_and_run, words))


def _parse_and_run(words: list[str]) -> int:
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    # argparse stops collecting overrides at the first flag; what follows it is theirs all the same.
    if rest and (not hasattr(options, "overrides") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.overrides = [*options.overrides, *rest]
    return int(options.command(options) or 0)


def run_main() -> None:
    """Be the bare Hydra application behind `drobench run`."""
    sys.exit(_guarded(_run, sys.argv[1:]))


def _guarded(command: Any, argument: Any) -> int:
    """Turn errors that are the user's to fix into one message and a code."""
    try:
        try:
            return int(command(argument) or 0)
        finally:
            # Here, where a closed pipe is answered below, and not while the interpreter shuts down.
            sys.stdout.flush()
    except DrobenchError as error:
        print(f"drobench: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("drobench: interrupted; what was finished is kept. The same command goes on from here.", file=sys.stderr)
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; keep the interpreter from complaining while it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    from drobench import __version__

    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="drobench", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=formatter
    )
    parser.add_argument("--version", action="version", version=f"drobench {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, function: Any, text: str, example: str) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=text, description=text, epilog=f"example:\n  {example}", formatter_class=formatter
        )
        made.set_defaults(command=function)
        return made

    # Listed for the help text only: `main` hands `run` to Hydra before this parser sees it.
    command("run", None, "compute one run, or with -m every combination (Hydra)", "drobench run solver=scgd seed=1")
    sweep = command("sweep", _sweep, "compute all cells of a sweep file", "drobench sweep quickstart --jobs 2")
    sweep.add_argument("name", nargs="?", help="a name from sweeps/, or the path of a YAML file; none: list them")
    sweep.add_argument("overrides", nargs="*", help="applied to every cell, e.g. budget.passes=10")
    sweep.add_argument("--jobs", type=int, default=1, help="cells at a time; times are comparable with 1 (default)")
    sweep.add_argument("--dry-run", action="store_true", help="count the cells and estimate the time, run nothing")
    sweep.add_argument("--timeout", type=float, help="seconds per cell")
    _add_results(sweep)
    board = command("leaderboard", _leaderboard, "compare the solvers", "drobench leaderboard --format markdown")
    board.add_argument("--format", choices=["table", "markdown", "csv", "json"], default="table")
    board.add_argument("--target-gap", type=float, default=1e-4, help="relative gap to reach (default 1e-4)")
    board.add_argument("--iterate", choices=["last", "average", "best_feasible"], default="last")
    _add_results(board)
    command("plugins", _plugins, "list what is installed, and from where", "drobench plugins")
    _add_data(command("data", _data, "list the datasets, fetch and verify them", "drobench data fetch adult"))
    doctor = command("doctor", _doctor, "say what works on this machine", "drobench doctor")
    _add_results(doctor)
    show = command("show", _show, "show one run", "drobench show 6f9b")
    show.add_argument("run_id", help="the run's id, or the beginning of it")
    show.add_argument("--json", action="store_true", help="the record as it is stored")
    _add_results(show)
    rerun = command("rerun", _rerun, "do a run again and compare", "drobench rerun 6f9b")
    rerun.add_argument("run_id", help="the run's id, or the beginning of it")
    _add_results(rerun)
    return parser


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=None)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=False)
    for name, text, example in (
        ("fetch", "download a dataset, or take it from local files, and verify it", "drobench data fetch adult"),
        ("verify", "read what was fetched again and compare checksums", "drobench data verify"),
    ):
        made = actions.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(action=name)
        made.add_argument("name", help="a dataset from `drobench data`", nargs=None if name == "fetch" else "?")
        if name == "fetch":
            made.add_argument("--from", dest="source", type=Path, metavar="DIR", help="a folder or zip archive")


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results", type=Path, default=None, help="folder of results (default: DROBENCH_RESULTS, or results/)"
    )


def _results(options: argparse.Namespace) -> Path:
    from drobench.app.api import default_results

    return options.results if options.results is not None else default_results()


def _console() -> "Console":
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # A file or a pipe has no width: cutting columns there would only lose content.
        console = Console(highlight=False, width=200)
    return console


def _run(words: list[str]) -> int:
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from drobench.app.config import CONFIG_NAME, HYDRA_VERSION_BASE, ConfigError, data_dir, explain, register
    from drobench.app.jobs import run_job
    from drobench.registry import load_catalogue

    catalogue = load_catalogue()
    for trouble in catalogue.troubles:
        print(f"drobench: not used: {trouble}", file=sys.stderr)
    register(catalogue)
    sys.argv = ["drobench-run", *words]
    # Hydra would print errors and exit by itself; this way they arrive here and can be explained.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    application = hydra.main(
        version_base=HYDRA_VERSION_BASE, config_path=str(data_dir("conf")), config_name=CONFIG_NAME
    )(run_job)
    try:
        application()
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explain(error, catalogue)) from error
    return 0


def _sweep(options: argparse.Namespace) -> int:
    from drobench.app.sweep_command import list_sweeps, run_sweep

    if options.name is None:
        return list_sweeps(_console())
    if options.jobs < 1:
        raise DrobenchError(f"--jobs must be at least 1; found {options.jobs}.")
    return run_sweep(options, _results(options), _console())


def _leaderboard(options: argparse.Namespace) -> int:
    from drobench.results.formats import format_csv, format_json, format_markdown
    from drobench.results.leaderboard import leaderboard
    from drobench.results.store import ResultStore

    store = ResultStore(_results(options))
    scan = store.records()
    for trouble in scan.troubles:
        print(f"drobench: {trouble.message}", file=sys.stderr)
    found = leaderboard(scan.records, store.curve, target_gap=options.target_gap, iterate=options.iterate)
    formats = {"markdown": format_markdown, "csv": format_csv, "json": format_json}
    if options.format in formats:
        print(formats[options.format](found), end="")
    else:
        from drobench.app.console import show_leaderboard

        show_leaderboard(_console(), found)
    return 0


def _plugins(_options: argparse.Namespace) -> int:
    from drobench.app.console import show_plugins
    from drobench.registry import load_catalogue

    catalogue = load_catalogue()
    show_plugins(_console(), catalogue)
    return _EXIT_FAILED if catalogue.troubles else 0


def _data(options: argparse.Namespace) -> int:
    from drobench.app.data_command import fetch_data, list_data, verify_data

    if options.action == "fetch":
        return fetch_data(options.name, options.source, _console())
    if options.action == "verify":
        return verify_data(options.name, _console())
    return list_data(_console())


def _doctor(options: argparse.Namespace) -> int:
    from rich.markup import escape

    from drobench.app.doctor import examine

    console = _console()
    bad = 0
    for finding in examine(_results(options)):
        mark = {True: "[green]ok[/green]", False: "[red]no[/red]", None: "  "}[finding.good]
        console.print(f"{mark}  {escape(finding.subject):<18} {escape(finding.text)}")
        bad += finding.good is False
    return _EXIT_FAILED if bad else 0


def _show(options: argparse.Namespace) -> int:
    from drobench.app.console import show_record
    from drobench.results.store import ResultStore

    record = ResultStore(_results(options)).read(options.run_id)
    if options.json:
        print(record.to_json(), end="")
    else:
        show_record(_console(), record)
    return 0


def _rerun(options: argparse.Namespace) -> int:
    from drobench.app.jobs import rerun

    return rerun(options.run_id, _results(options), _console())
