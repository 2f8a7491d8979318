"""Oracles that note what a solver does around them, and oracles that always hand out everything."""

import sys
from typing import Any

from drobench.objective.oracle import Oracle

# What an oracle holds to itself. The objective room's own code, which does the counting, may use it.
_HIDDEN = ("_form", "materialise")
_INSIDE = "drobench.objective"


def watch(oracle: Oracle) -> list[str]:
    """Return a list that grows by one line whenever code outside the oracle goes around its counting."""
    noticed: list[str] = []
    original: Any = type(oracle)

    class Watched(original):
        def __getattribute__(self, name: str) -> Any:
            if name in _HIDDEN and not _called_from_inside():
                noticed.append(f"reads `oracle.{name}`{_place()}")
            return super().__getattribute__(name)

        def __setattr__(self, name: str, value: Any) -> None:
            if not _called_from_inside():
                noticed.append(f"sets `oracle.{name}`{_place()}")
            super().__setattr__(name, value)

    Watched.__name__ = Watched.__qualname__ = original.__name__
    oracle.__class__ = Watched
    return noticed


def draw_everything(oracle: Any) -> None:
    """Make every draw the exact full set, whatever is asked for."""
    draw, draw_by = oracle.draw, oracle.draw_by
    oracle.draw = lambda *_sizes, **_how: draw()
    oracle.draw_by = lambda clients, *_sizes, **_how: draw_by(clients)
    if hasattr(oracle, "draw_groups"):
        draw_groups = oracle.draw_groups
        oracle.draw_groups = lambda *_counts, **_how: draw_groups()


def _called_from_inside() -> bool:
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith(_INSIDE)


def _place() -> str:
    frame = sys._getframe(2)
    return f" in {frame.f_code.co_filename}, line {frame.f_lineno}"
