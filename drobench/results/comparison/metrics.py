"""The metrics that runs can be compared by: those of every record, and those that only their problem has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from drobench.errors import SettingError
from drobench.hints import did_you_mean
from drobench.results.metric import SPLIT_PREFIXES, without_split
from drobench.results.parts import ITERATE_FIELDS, ITERATES
from drobench.results.record import Iterate, Record

COSTS = {
    "passes": "passes",
    "oracle_calls": "oracle_calls",
    "seconds": "solver_seconds",
    "bytes": "communication_bytes",
}
"""What reaching a target may cost, and the column of a curve that counts it."""

QUALITIES = (
    "objective",
    "gap",
    "relative_gap",
    "train_error",
    "validation_error",
    "test_error",
    "train_max_violation",
    "test_max_violation",
)
"""The metrics of an iterate that are always summarised; in all of them less is better."""

MEASURES = tuple(name for name in ITERATE_FIELDS if name not in ("feasible", "step"))
"""What every record has a place for; in all of it less is better. A problem may measure more."""

METRICS = (*QUALITIES, *(f"{cost}_to_target" for cost in COSTS), "seconds_total")
"""The columns that always summarise one number per run."""


def may_be_metric(name: str) -> bool:
    """Whether some run may have a metric of this name; which ones do is known once there are runs."""
    return name in MEASURES or name.startswith(SPLIT_PREFIXES)


def value_of(point: Iterate | None, name: str) -> float | None:
    """A metric of an iterate, its problem's own ones too; `None` where it has no such number."""
    if point is None:
        return None
    value: Any = getattr(point, name) if name in ITERATE_FIELDS else point.extra.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class Known:
    """What the runs of a comparison measure.

    Attributes:
        names: All metrics, those of every record first.
        units: Units by name, of those that have one.
        more: The metrics of which more is better.
        disputed: The metrics of which some runs say that less, and others that more is better.
    """

    names: tuple[str, ...]
    units: dict[str, str]
    more: frozenset[str]
    disputed: frozenset[str]

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Known":
        """Gather what the runs say."""
        extra: dict[str, None] = {}
        said: dict[str, set[str]] = {}
        units: dict[str, str] = {}
        for record in records:
            points = [getattr(record.iterates, name) for name in ITERATES]
            extra |= dict.fromkeys(name for point in points if point is not None for name in point.extra)
            for name, described in record.metrics.items():
                said.setdefault(name, set()).add(described["better"])
                units[name] = described["unit"]
        own = [name for name in extra if name not in ITERATE_FIELDS]
        directions = {name: said.get(without_split(name), set()) for name in own}
        return cls(
            names=(*MEASURES, *own),
            units={name: unit for name in own if (unit := units.get(without_split(name)))},
            more=frozenset(name for name, found in directions.items() if found == {"more"}),
            disputed=frozenset(name for name, found in directions.items() if len(found) > 1),
        )

    def resolve(self, name: str) -> str:
        """The full name of a metric; the beginning will do where only one begins so: `test_tail_loss`.

        Raises:
            SettingError: If there is none, or more than one, or the runs do not agree which way it is better.
        """
        if name in self.disputed:
            raise SettingError(
                f"The runs do not agree whether less or more of {name!r} is better. Compare those of one problem at a "
                "time, with `--problem`."
            )
        if name in self.names:
            return name
        begin = [known for known in self.names if known.startswith(f"{name}_")]
        if len(begin) == 1:
            return self.resolve(begin[0])
        several = f" It begins {', '.join(begin)}." if begin else ""
        raise SettingError(
            f"No run has a metric {name!r}.{did_you_mean(name, self.names)}{several} These runs have: "
            f"{', '.join(self.names)}."
        )


def not_among(asked: Sequence[str], shown: Iterable[str]) -> tuple[str, ...]:
    """The names asked for that are not shown anyway, each once."""
    there = set(shown)
    return tuple(name for name in dict.fromkeys(asked) if name not in there)
