"""The command line: the commands of all families, and what becomes of their errors.

What a command does is in the file of its family in `drobench.app.commands`.
"""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from drobench.app.commands import (
    bundles,
    comparison,
    completion,
    data,
    doctor,
    export,
    plugins,
    run,
    runs,
    settings,
    sweep,
)
from drobench.app.commands.parsing import Handler, add_parser
from drobench.errors import DrobenchError
from drobench.harmless import harmless

FAMILIES = (run, sweep, comparison, runs, export, settings, bundles, plugins, data, doctor, completion)
_DESCRIPTION = "Benchmarks for distributionally robust and heavily constrained learning."
_EPILOG = """examples:
  drobench sweep quickstart                  the main job: embedded data, no network, about a minute
  drobench run solver=gcivr problem=kl_classification dataset=breast_cancer seed=3
  drobench run -m solver=gcivr,scgd,unconstrained 'seed=range(5)'
  drobench leaderboard
  drobench report --output report.html
"""
_EXIT_INTERRUPTED = 130
Argument = TypeVar("Argument")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Everything after `run` belongs to Hydra, flags and help included.
    if words[:1] == ["run"]:
        sys.exit(_guarded(run.run_with_hydra, words[1:]))
    sys.exit(_guarded(_parse_and_run, words))


def run_main() -> None:
    """Be the bare Hydra application behind `drobench run`."""
    sys.exit(_guarded(run.run_with_hydra, sys.argv[1:]))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    from drobench import __version__

    parser = argparse.ArgumentParser(
        prog="drobench",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"drobench {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for family in FAMILIES:
        family.add_commands(partial(_add_command, commands))
    return parser


def _add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    handler: Handler | None,
    text: str,
    example: str,
) -> argparse.ArgumentParser:
    parser = add_parser(commands, name, text, example)
    parser.set_defaults(command=handler)
    return parser


def _parse_and_run(words: list[str]) -> int:
    parser = build_parser()
    options, rest = parser.parse_known_args(words)
    # argparse stops collecting overrides at the first flag; what follows it is theirs all the same.
    if rest and (not hasattr(options, "overrides") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.overrides = [*options.overrides, *rest]
    return int(options.command(options) or 0)


def _print_anything() -> None:
    """Print what the encoding of the output has no word for as an escape, instead of ending there."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _guarded(command: Callable[[Argument], int], argument: Argument) -> int:
    """Turn errors that are the user's to fix into one message and a code."""
    _print_anything()
    try:
        try:
            return int(command(argument) or 0)
        finally:
            # Here, where a closed pipe is answered below, and not while the interpreter shuts down.
            sys.stdout.flush()
    except DrobenchError as error:
        print(f"drobench: {harmless(str(error))}", file=sys.stderr)
        return error.exit_code
    except UnicodeEncodeError as error:
        # A word that no file can have as its name.
        print(f"drobench: {harmless(repr(error.object))} cannot be encoded ({error.reason}).", file=sys.stderr)
        return DrobenchError.exit_code
    except KeyboardInterrupt:
        print("drobench: interrupted; what was finished is kept. The same command goes on from here.", file=sys.stderr)
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; keep the interpreter from complaining while it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # A full disk, a name that is too long, a folder that may not be written to: nothing to be mended in here.
        print(f"drobench: the system refuses: {harmless(str(error))}", file=sys.stderr)
        return DrobenchError.exit_code
