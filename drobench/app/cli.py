"""The command line. Each command imports what it needs when it runs, so that `drobench --help` is instant."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drobench.errors import DrobenchError

if TYPE_CHECKING:
    from rich.console import Console

    from drobench.results.comparison.board import Leaderboard
    from drobench.results.record import Record
    from drobench.results.store import ResultStore

_DESCRIPTION = "Benchmarks for distributionally robust and heavily constrained learning."
_EPILOG = """examples:
  drobench sweep quickstart                  the main job: embedded data, no network, about a minute
  drobench run solver=gcivr problem=kl_classification dataset=breast_cancer seed=3
  drobench run -m solver=gcivr,scgd,unconstrained 'seed=range(5)'
  drobench leaderboard
  drobench report --output report.html
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

    _add_computing(command)
    _add_comparing(command)
    _add_drawings(command)
    _add_single_runs(command)
    _add_travelling(command)
    _add_plugins(command)
    _add_data(command("data", _data, "list the datasets, fetch and verify them", "drobench data fetch adult"))
    _add_results(command("doctor", _doctor, "say what works on this machine", "drobench doctor"))
    return parser


def _add_computing(command: Any) -> None:
    # Listed for the help text only: `main` hands `run` to Hydra before this parser sees it.
    command("run", None, "compute one run, or with -m every combination (Hydra)", "drobench run solver=scgd seed=1")
    sweep = command("sweep", _sweep, "compute all cells of a sweep file", "drobench sweep quickstart --jobs 2")
    sweep.add_argument("name", nargs="?", help="a name from sweeps/, or the path of a YAML file; none: list them")
    sweep.add_argument("overrides", nargs="*", help="applied to every cell, e.g. budget.passes=10")
    sweep.add_argument("--jobs", type=int, default=1, help="cells at a time; times are comparable with 1 (default)")
    sweep.add_argument("--dry-run", action="store_true", help="count the cells and estimate the time, run nothing")
    sweep.add_argument("--timeout", type=float, help="seconds per cell")
    _add_results(sweep)


def _add_comparing(command: Any) -> None:
    board = command("leaderboard", _leaderboard, "compare the solvers", "drobench leaderboard --format markdown")
    board.add_argument("--format", choices=["table", "markdown", "csv", "json", "html"], default="table")
    _add_comparison(board)
    _add_results(board)


def _add_single_runs(command: Any) -> None:
    show = command("show", _show, "show one run", "drobench show 6f9b")
    show.add_argument("run_id", help="the run's id, or the beginning of it")
    show.add_argument("--json", action="store_true", help="the record as it is stored")
    _add_results(show)
    rerun = command("rerun", _rerun, "do a run again and compare", "drobench rerun 6f9b")
    rerun.add_argument("run_id", help="the run's id, or the beginning of it")
    _add_results(rerun)


def _add_travelling(command: Any) -> None:
    packed = command("pack", _pack, "put results into one file to hand on", "drobench pack results -o bundle.zip")
    packed.add_argument("results", type=Path, nargs="?", help="folder of results (default: as for the other commands)")
    packed.add_argument("-o", "--output", type=Path, default=Path("bundle.zip"), metavar="FILE")
    verify = command("verify", _verify, "compute the metrics of a bundle again", "drobench verify bundle.zip --rerun 1")
    verify.add_argument("bundle", type=Path, help="a file made by `drobench pack`, or a folder of results")
    verify.add_argument("--rerun", type=int, default=0, metavar="N", help="also do so many random runs again")
    verify.add_argument("--seed", type=int, default=0, help="of the choice of these runs (default 0)")
    merge = command("merge", _merge, "join results of several people or machines", "drobench merge theirs.zip ../other")
    merge.add_argument("sources", type=Path, nargs="+", metavar="SOURCE", help="folders of results, or bundles")
    _add_results(merge)


def _add_plugins(command: Any) -> None:
    command("plugins", _plugins, "list what is installed, and from where", "drobench plugins")
    new = command("new", _new, "write a package for a plugin of your own", "drobench new solver my_solver")
    new.add_argument("kind", choices=["solver", "problem", "dataset"])
    new.add_argument("name", help="what it is called in configs; also the name of the package")
    new.add_argument("--output", type=Path, default=Path(), metavar="DIR", help="where (default: here)")
    check = command("check", _check, "hold a plugin against the checks of its kind", "drobench check gcivr -k optimum")
    check.add_argument("name", help="a solver, problem or dataset from `drobench plugins`; of all kinds with this name")
    check.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings to build it with, e.g. batch=16")
    check.add_argument("-k", dest="expression", default="", metavar="EXPRESSION", help="only some checks, as in pytest")


def _add_comparison(parser: argparse.ArgumentParser) -> None:
    """Add which runs are compared, and how; the results room checks what it knows, so that help needs none of it."""
    asked = parser.add_argument_group("what is asked")
    asked.add_argument(
        "--target", action="append", default=[], metavar="METRIC=NUMBER,...",
        help="what counts as solved, e.g. gap=1e-4 or error=0.2,violation=0.01; again for further ones, of which the "
        "first decides the ranks (default gap=1e-4, then 1e-2 and 1e-6; gap is relative)",
    )  # fmt: skip
    asked.add_argument("--target-gap", type=float, metavar="NUMBER", help="short for --target gap=NUMBER")
    asked.add_argument(
        "--cost", choices=["passes", "oracle_calls", "seconds", "bytes"], default="passes", help="of reaching a target"
    )
    asked.add_argument("--by", metavar="METRIC", help="what decides without a target: gap, objective, test_error, ...")
    asked.add_argument("--iterate", choices=["last", "average", "best_feasible"], default="last")
    asked.add_argument("--baseline", metavar="SOLVER", help="compare all others with this one, not with the first")
    asked.add_argument(
        "--select", choices=["validation"], help="keep one configuration per solver, chosen on validation data"
    )
    chosen = parser.add_argument_group("which runs (names may hold * and ?, several are separated by commas)")
    for part in ("problem", "dataset", "solver"):
        chosen.add_argument(f"--{part}", type=_words, default=[], metavar="NAME,...")
    chosen.add_argument(
        "--where", action="append", default=[], metavar="KEY=VALUE", help="a setting they must have: problem.gamma=0.5"
    )
    chosen.add_argument(
        "--across", type=_words, default=[], metavar="KEY,...",
        help="settings that shall not split a board: dataset.seed (its splits are paired), problem.surrogate",
    )  # fmt: skip


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _add_drawings(command: Callable[[str, Any, str, str], argparse.ArgumentParser]) -> None:
    report = command("report", _report, "draw the comparison as one HTML page", "drobench report --output report.html")
    report.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE", help="default report.html")
    _add_comparison(report)
    _add_results(report)
    plot = command("plot", _plot, "draw the figures as files for papers", "drobench plot --output figures --format svg")
    plot.add_argument("--output", type=Path, default=Path("figures"), metavar="DIR", help="folder (default figures/)")
    plot.add_argument("--format", default="png,svg", help="png, svg, or both separated by a comma (default)")
    _add_comparison(plot)
    _add_results(plot)


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=None)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=False)
    for name, text, example in (
        ("fetch", "download a dataset, or take it from local files, and verify it", "drobench data fetch adult"),
        ("verify", "read what was fetched again and compare checksums", "drobench data verify"),
        (
            "convert",
            "write Parquet files as one table for dataset=mapped, which may be larger than memory",
            "drobench data convert 'shards/*.parquet' --label target --output table",
        ),
    ):
        made = actions.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(action=name)
        if name == "convert":
            made.add_argument("sources", nargs="+", metavar="SOURCE", help="a .parquet file, a folder, or a pattern")
            made.add_argument("--output", type=Path, required=True, metavar="DIR", help="the folder to write")
            made.add_argument("--label", required=True, metavar="COLUMN", help="the column to predict")
            made.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="no feature; repeatable")
            made.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="default float32")
            continue
        if name == "verify":
            made.add_argument("name", nargs="?", help="a dataset from `drobench data`, or a folder that convert wrote")
        else:
            made.add_argument("name", help="a dataset from `drobench data`")
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
    from drobench.results.report.formats import format_csv, format_json, format_markdown
    from drobench.results.report.pages import format_html

    _, _, found = _compared(options)
    formats = {"markdown": format_markdown, "csv": format_csv, "json": format_json, "html": format_html}
    if options.format in formats:
        print(formats[options.format](found), end="")
    else:
        from drobench.app.console import show_leaderboard

        show_leaderboard(_console(), found)
    return 0


def _report(options: argparse.Namespace) -> int:
    from drobench.app.report_command import report_command

    return report_command(*_compared(options), options.output, _console())


def _plot(options: argparse.Namespace) -> int:
    from drobench.app.report_command import plot_command

    return plot_command(*_compared(options), options.output, _words(options.format), _console())


def _compared(options: argparse.Namespace) -> "tuple[ResultStore, list[Record], Leaderboard]":
    """The folder of results, the runs in question and what their comparison says."""
    from drobench.results.comparison.filters import Filter
    from drobench.results.comparison.leaderboard import leaderboard
    from drobench.results.comparison.question import SETTINGS, Question
    from drobench.results.comparison.targets import Target
    from drobench.results.curves import StoredCurves
    from drobench.results.store import ResultStore

    kept = Filter(options.problem, options.dataset, options.solver, dict(_setting(text) for text in options.where))
    targets = [Target.parse(text) for text in options.target]
    store = ResultStore(_results(options))
    scan = store.records()
    for trouble in scan.troubles:
        print(f"drobench: {trouble.message}", file=sys.stderr)
    records = kept.apply(scan.records)
    asked = {name: getattr(options, name) for name in SETTINGS if name != "targets"}
    found = leaderboard(records, StoredCurves(store), Question.of(targets=targets, **asked))
    return store, records, found


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise DrobenchError(f"--where expects KEY=VALUE, such as problem.gamma=0.5; found {text!r}.")
    return name.strip(), value.strip()


def _plugins(_options: argparse.Namespace) -> int:
    from drobench.app.console import show_plugins
    from drobench.registry import load_catalogue

    catalogue = load_catalogue()
    show_plugins(_console(), catalogue)
    return _EXIT_FAILED if catalogue.troubles else 0


def _new(options: argparse.Namespace) -> int:
    from drobench.app.new_command import new_package

    return new_package(options.kind, options.name, options.output, _console())


def _check(options: argparse.Namespace) -> int:
    from drobench.app.check_command import check_plugin

    return check_plugin(options.name, options.overrides, options.expression, _console())


def _data(options: argparse.Namespace) -> int:
    from drobench.app.data_command import convert_data, fetch_data, list_data, verify_data

    if options.action == "convert":
        return convert_data(options, _console())
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
        show_record(_console(), record, complete=True)
    return 0


def _pack(options: argparse.Namespace) -> int:
    from drobench.app.submissions import pack_results

    return pack_results(_results(options), options.output, _console())


def _verify(options: argparse.Namespace) -> int:
    from drobench.app.submissions import verify_bundle

    if options.rerun < 0:
        raise DrobenchError(f"--rerun must be a number of runs; found {options.rerun}.")
    return verify_bundle(options.bundle, options.rerun, options.seed, _console())


def _merge(options: argparse.Namespace) -> int:
    from drobench.app.submissions import merge_results

    return merge_results(options.sources, _results(options), _console())


def _rerun(options: argparse.Namespace) -> int:
    from drobench.app.jobs import rerun

    return rerun(options.run_id, _results(options), _console())
