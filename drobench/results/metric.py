"""What is known of a metric besides its value: its name, which way is better, and its unit.

A problem says so of what it measures, and a record keeps it, so that boards need no plugin. In records and curves the
name has the split in front: `worst_group_error` is `test_worst_group_error` there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from drobench.errors import SettingError, require_one_of

DIRECTIONS = ("less", "more")
SPLIT_PREFIXES = ("train_", "validation_", "test_")
"""How the names of a problem's own metrics begin in records and curves."""


@dataclass(frozen=True)
class Metric:
    """A metric of a problem.

    Attributes:
        name: As in `SplitScore.extra`, without a split.
        better: `less` or `more`.
        unit: For people: `share`, `loss`, `target`; empty for a bare number.

    Raises:
        SettingError: If the name is no plain word, or the direction is neither of the two.
    """

    name: str
    better: str = "less"
    unit: str = ""

    def __post_init__(self) -> None:
        require_one_of(self, "better", DIRECTIONS)
        if not is_plain_name(self.name):
            raise SettingError(
                f"The name of a metric must be one word of letters, digits and _, without a split in front, such as "
                f"worst_group_error; found {self.name!r}."
            )


def is_plain_name(name: str) -> bool:
    """Whether a problem may call a metric so: one word, without a split in front."""
    return name.isidentifier() and not name.startswith(SPLIT_PREFIXES)


def stored_metrics(metrics: Iterable[Metric]) -> dict[str, Any]:
    """Return what a record keeps of the metrics, by name."""
    return {metric.name: {"better": metric.better, "unit": metric.unit} for metric in metrics}


def is_described(value: Any) -> bool:
    """Whether a value of a file says what `stored_metrics` would."""
    return isinstance(value, Mapping) and value.get("better") in DIRECTIONS and isinstance(value.get("unit"), str)


def titled(name: str, unit: str | None = None, *, more: bool = False) -> str:
    """A metric as a table or figure calls it."""
    notes = [note for note in (unit, "more is better" if more else None) if note]
    return name.replace("_", " ") + (f" ({', '.join(notes)})" if notes else "")


def without_split(name: str) -> str:
    """The name of a metric as its problem has it."""
    return next((name.removeprefix(prefix) for prefix in SPLIT_PREFIXES if name.startswith(prefix)), name)
