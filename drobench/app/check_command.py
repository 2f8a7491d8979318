"""`drobench check NAME`: the checks of whatever is installed under that name, as a table."""

import importlib.util
from typing import Any

from rich.console import Console

from drobench.app.console import table
from drobench.errors import DrobenchError
from drobench.registry import Catalogue, load_catalogue
from drobench.registry.hints import did_you_mean

_OUTCOMES = ("passed", "failed", "skipped")
_EXIT_FAILED = 1


def check_plugin(name: str, overrides: list[str], expression: str, console: Console) -> int:
    """Print what the checks found; return 1 if one failed.

    Raises:
        DrobenchError: Nothing of this name is installed, or pytest is not.
    """
    if importlib.util.find_spec("pytest") is None:
        raise DrobenchError(
            "`drobench check` runs its checks with pytest, which is not installed here: pip install 'drobench[checks]'."
        )
    from drobench.checks.installed import checks_called
    from drobench.checks.running import run_checks

    catalogue = load_catalogue()
    classes = checks_called(name, catalogue, dict(_setting(word) for word in overrides))
    if not classes:
        raise DrobenchError(_unknown(name, catalogue))
    results = run_checks(classes, expression)
    for kind in dict.fromkeys(result.kind for result in results):
        rows = [
            [result.check.replace("_", " "), result.outcome, result.reason] for result in results if result.kind == kind
        ]
        console.print(table(f"{kind} {name}", ["check", "result", "reason"], rows))
    counts = {outcome: sum(result.outcome == outcome for result in results) for outcome in _OUTCOMES}
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return _EXIT_FAILED if counts["failed"] else 0


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


def _unknown(name: str, catalogue: Catalogue) -> str:
    known = [*catalogue.solvers, *catalogue.problems, *catalogue.datasets]
    return (
        f"There is no solver, problem or dataset called {name!r}.{did_you_mean(name, known)} `drobench plugins` lists "
        "what is installed."
    )
