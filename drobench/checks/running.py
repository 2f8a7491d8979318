"""Running checks from a program rather than from pytest's command line, and reading what came out."""

import os
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from drobench.checks.subject import Checks
from drobench.errors import DrobenchError

# What the module below collects: pytest wants a file, and classes made by a program are in none.
HANDED_OVER: dict[str, type[Checks]] = {}
_MODULE = "from drobench.checks.running import HANDED_OVER\n\nglobals().update(HANDED_OVER)\n"
_NOTHING_COLLECTED = 5


class Result(NamedTuple):
    """What one check found."""

    kind: str
    subject: str
    check: str
    outcome: str
    """`passed`, `failed` or `skipped`."""
    reason: str


def run_checks(classes: Mapping[str, type[Checks]], expression: str = "") -> list[Result]:
    """Run the checks of some classes and return what they found, in their order.

    Args:
        classes: The classes by their names, which begin with `Test`.
        expression: Which checks, as pytest's `-k` has it.

    Raises:
        DrobenchError: No check fits the expression.
    """
    recorder = _Recorder()
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(HANDED_OVER, classes, clear=True):
        # A name of its own: of two modules with one name, Python would import the first again.
        file, settings = Path(folder) / f"test_{Path(folder).name}.py", Path(folder) / "pytest.ini"
        file.write_text(_MODULE)
        settings.write_text("[pytest]\n")
        # Nobody else's plugins, options or conftest: the same checks give the same table everywhere.
        words = [str(file), "-c", str(settings), "--rootdir", folder, "--import-mode=importlib", "--capture=sys"]
        words += ["-p", "no:terminal", "-p", "no:cacheprovider", "-k", expression]
        with mock.patch.dict(os.environ, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}):
            code = pytest.main(words, plugins=[recorder])
    if code == _NOTHING_COLLECTED:
        known = ", ".join(dict.fromkeys(check for made in classes.values() for check in made.checks()))
        raise DrobenchError(f"No check fits the expression {expression!r}. The checks: {known}.")
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise DrobenchError(f"The checks could not be run: pytest ended with {code!r}. {recorder.trouble}")
    return recorder.results


class _Recorder:
    def __init__(self) -> None:
        self.results: list[Result] = []
        self.trouble = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        report = yield
        # A check that passed has a report of its call; one that is skipped or fails early has one of its setup.
        if report.when == "call" or not report.passed:
            checks, reason = type(item.instance), "" if call.excinfo is None else _words(call.excinfo.value)
            check = item.originalname.removeprefix("test_")
            # The subject's own name; a class that was given an entry need not say it.
            name = checks.name or getattr(checks.entry, "name", checks.__name__)
            self.results.append(Result(checks.kind, name, check, report.outcome, reason))
        return report

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.trouble = str(report.longrepr)


def _words(error: BaseException) -> str:
    if isinstance(error, pytest.skip.Exception | pytest.fail.Exception):
        return str(error)
    return f"{type(error).__name__}: {error}"
