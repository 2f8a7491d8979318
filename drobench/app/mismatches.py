"""A number or a setting that is not what a record says, and how two values are compared."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Mismatch:
    """Something that a record says and that is not so."""

    what: str
    recorded: Any
    recomputed: Any

    def __str__(self) -> str:
        return f"{self.what}: recorded {self.recorded!r}, found {self.recomputed!r}"


def compared(what: str, recorded: Any, recomputed: Any, tolerance: float | None = None) -> Iterator[Mismatch]:
    """Yield a mismatch unless the values are the same, numbers up to a tolerance, relative or absolute.

    What is not finite in a computation is null in a record.
    """
    recorded, recomputed = _as_recorded(recorded), _as_recorded(recomputed)
    if tolerance is not None and _are_numbers(recorded, recomputed):
        same = math.isclose(recorded, recomputed, rel_tol=tolerance, abs_tol=tolerance)
    else:
        same = recorded == recomputed
    if not same:
        yield Mismatch(what, recorded, recomputed)


def _as_recorded(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
