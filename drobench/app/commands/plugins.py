"""`drobench plugins`, `new` and `check`: what is installed, a package of one's own, and whether it keeps the rules."""

import argparse
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drobench.app.commands.parsing import AddCommand
from drobench.errors import DrobenchError

if TYPE_CHECKING:
    from drobench.registry import Catalogue, Entry

KINDS = ("solver", "problem", "dataset", "model", "loss", "reformulation")
_OF_DATA = "dataset."
_OUTCOMES = ("passed", "failed", "skipped")
_EXIT_FAILED = 1


def add_commands(add: AddCommand) -> None:
    """Add the commands of this family."""
    add("plugins", plugins, "list what is installed, and from where", "drobench plugins")
    made = add("new", new, "write a package for a plugin of your own", "drobench new solver my_solver")
    made.add_argument("kind", choices=KINDS)
    made.add_argument("name", help="what it is called in configs; also the name of the package")
    made.add_argument("--output", type=Path, default=Path(), metavar="DIR", help="where (default: here)")
    held = add("check", check, "hold a plugin against the checks of its kind", "drobench check gcivr -k optimum")
    held.add_argument("name", help="a thing from `drobench plugins`; of all kinds with this name")
    held.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings to build it with, e.g. batch=16")
    held.add_argument("--dataset", metavar="NAME", help="data to try a problem or a model on, with dataset.KEY=VALUE")
    held.add_argument("-k", dest="expression", default="", metavar="EXPRESSION", help="only some checks, as in pytest")


def plugins(_options: argparse.Namespace) -> int:
    """Print what is installed, from which package, and what could not be used; return 1 if there is such a thing."""
    from rich.markup import escape

    from drobench.app.console import open_console, table
    from drobench.registry import PLUGIN_API, list_catalogue

    catalogue, console = list_catalogue(), open_console()
    for kind, entries in catalogue.of_kinds().items():
        rows = [
            [name, _described(found.entry), found.entry.reference or "-", f"{found.distribution} {found.version}"]
            for name, found in entries.items()
        ]
        console.print(table(kind, ["name", "what it is", "reference", "from"], rows))
    packages = [
        [it.plugin, f"{it.distribution} {it.version}", "unknown" if it.api is None else str(it.api), str(it.entries)]
        for it in catalogue.plugins
    ]
    title = f"plugins (this drobench has plugin API {PLUGIN_API})"
    console.print(table(title, ["name", "from", "API", "entries"], packages))
    for trouble in catalogue.troubles:
        console.print(f"[yellow]not used:[/yellow] {escape(str(trouble))}")
    if catalogue.disabled:
        console.print(f"disabled: {escape(', '.join(catalogue.disabled))}")
    return _EXIT_FAILED if catalogue.troubles else 0


def _described(entry: "Entry") -> str:
    """Return what an entry is, and whether it was rebuilt without the original text at hand."""
    return f"{entry.summary} [reconstructed]" if getattr(entry, "reconstructed", False) else entry.summary


def new(options: argparse.Namespace) -> int:
    """Write a package and say what to do with it."""
    from rich.markup import escape

    from drobench.app.console import open_console
    from drobench.app.new_package import words_of_a_run, write_package

    kind, name, console = options.kind, options.name, open_console()
    target = options.output / name
    files = write_package(kind, name, target)
    console.print(f"{escape(str(target))}: a {kind} in src/{name}/{kind}.py, its tests, {files} files. Next:\n")
    words = words_of_a_run(kind, name)
    last = f"drobench run {words}" if words else f"drobench check {name}"
    for line in (f"cd {target}", "pip install -e '.[test]'", "pytest", last):
        console.print(f"  {escape(line)}", soft_wrap=True)
    return 0


def check(options: argparse.Namespace) -> int:
    """Print what the checks of a plugin found; return 1 if one failed.

    Raises:
        DrobenchError: Nothing of this name is installed, or pytest is not.
    """
    if importlib.util.find_spec("pytest") is None:
        raise DrobenchError(
            "`drobench check` runs its checks with pytest, which is not installed here: pip install 'drobench[checks]'."
        )
    from drobench.app.console import open_console, table
    from drobench.checks.embedded_data import dataset_called
    from drobench.checks.installed import checks_called
    from drobench.checks.running import run_checks
    from drobench.registry import load_catalogue

    name, console, catalogue = options.name, open_console(), load_catalogue()
    settings, of_data = _settings(options.overrides, options.dataset)
    data = None if options.dataset is None else dataset_called(options.dataset, of_data, catalogue)
    classes = checks_called(name, catalogue, settings, data)
    if not classes:
        raise DrobenchError(_unknown(name, catalogue))
    results = run_checks(classes, options.expression)
    for kind in dict.fromkeys(result.kind for result in results):
        rows = [
            [result.check.replace("_", " "), result.outcome, result.reason] for result in results if result.kind == kind
        ]
        console.print(table(f"{kind} {name}", ["check", "result", "reason"], rows))
    counts = {outcome: sum(result.outcome == outcome for result in results) for outcome in _OUTCOMES}
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return _EXIT_FAILED if counts["failed"] else 0


def _settings(words: Sequence[str], dataset: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the subject, and those of the data it is tried on."""
    found = dict(_setting(word) for word in words)
    of_data = {key.removeprefix(_OF_DATA): value for key, value in found.items() if key.startswith(_OF_DATA)}
    if of_data and dataset is None:
        raise DrobenchError(
            f"Settings of a dataset need one: found {_OF_DATA}{next(iter(of_data))}. Name it with `--dataset NAME`."
        )
    return {key: value for key, value in found.items() if not key.startswith(_OF_DATA)}, of_data


def _setting(word: str) -> tuple[str, Any]:
    """Return name and value of a setting, written as for `drobench run`."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise DrobenchError(
            f"Settings of the subject are written KEY=VALUE, such as batch=16; found {word!r}."
        ) from error
    return parsed.key_or_group, parsed.value()


def _unknown(name: str, catalogue: "Catalogue") -> str:
    from drobench.registry.hints import did_you_mean

    known = [name for entries in catalogue.of_kinds().values() for name in entries]
    return (
        f"There is no plugin with checks called {name!r}.{did_you_mean(name, known)} `drobench plugins` lists "
        "what is installed."
    )
