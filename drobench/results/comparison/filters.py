"""Which runs take part in a comparison."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from drobench.errors import DrobenchError
from drobench.results.comparison.labels import content_key, flattened
from drobench.results.record import Record

_PARTS = ("solver", "problem", "dataset")


class NothingToCompare(DrobenchError):
    """There are no runs a leaderboard could be made of."""

    exit_code = 3


@dataclass(frozen=True)
class Filter:
    """What the runs of a comparison must have; names may hold `*` and `?`, and any of several is enough.

    Attributes:
        problem: Names of problems; none: all.
        dataset: Names of datasets.
        solver: Names of solvers.
        where: Settings by dotted name, as on the command line of a run: `problem.gamma`, `seed`, `model.name`.
    """

    problem: Sequence[str] = ()
    dataset: Sequence[str] = ()
    solver: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)

    def apply(self, records: Sequence[Record]) -> list[Record]:
        """The runs that fit.

        Raises:
            NothingToCompare: If a pattern or setting fits none, naming what there is.
        """
        kept = list(records)
        for part in _PARTS:
            patterns = getattr(self, part)
            if patterns:
                kept = _by_name(kept, part, patterns)
        for name, wanted in self.where.items():
            kept = _by_setting(kept, name, wanted)
        return kept


def settings(record: Record) -> dict[str, Any]:
    """All settings of a run by dotted name."""
    nested = {
        "seed": record.seed,
        "status": str(record.status),
        "model": record.model,
        "budget": record.budget,
        "trainer": record.trainer,
        "reformulation": record.reformulation,
        **{part: {"name": getattr(record, part).name, **getattr(record, part).config} for part in _PARTS},
    }
    return flattened(nested)


def _by_name(records: Sequence[Record], part: str, patterns: Sequence[str]) -> list[Record]:
    def fits(record: Record) -> bool:
        return any(fnmatchcase(getattr(record, part).name, pattern) for pattern in patterns)

    return _or_refuse(records, fits, part, ", ".join(patterns), lambda record: getattr(record, part).name)


def _by_setting(records: Sequence[Record], name: str, wanted: str) -> list[Record]:
    def found(record: Record) -> str:
        return _text(settings(record).get(name))

    return _or_refuse(records, lambda record: found(record) == wanted, name, wanted, found)


def _or_refuse(
    records: Sequence[Record],
    fits: Callable[[Record], bool],
    what: str,
    wanted: str,
    found: Callable[[Record], str],
) -> list[Record]:
    kept = [record for record in records if fits(record)]
    if records and not kept:
        there = ", ".join(sorted({found(record) for record in records}))
        raise NothingToCompare(f"No run has {what}={wanted}; there is: {there}.")
    return kept


def _text(value: Any) -> str:
    return value if isinstance(value, str) else content_key(value)
