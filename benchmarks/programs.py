"""The programs of this folder: every module with a `main`, found by reading and not by importing."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent


class Program(NamedTuple):
    """Something to run with `python -m`."""

    name: str
    summary: str
    """The first line of its text."""


def programs() -> list[Program]:
    """Return all programs but this folder's own, by name."""
    return sorted(_programs())


def _programs() -> Iterator[Program]:
    for path in ROOT.rglob("*.py"):
        module = ast.parse(path.read_text(encoding="utf-8"))
        is_program = any(isinstance(part, ast.FunctionDef) and part.name == "main" for part in module.body)
        parts = [part for part in path.relative_to(ROOT).with_suffix("").parts if part != "__main__"]
        if is_program and parts:
            yield Program(".".join((ROOT.name, *parts)), (ast.get_docstring(module) or "").partition("\n")[0])
