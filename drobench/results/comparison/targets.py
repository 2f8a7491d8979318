"""Targets: what counts as solved.

A target is joint: every limit of it must hold at the same evaluation. The relative gap of a value is
`(value - optimum) / (value at the start - optimum)`: 1 at the start, 0 at the optimum.
"""

import math
from dataclasses import dataclass, replace

from drobench.errors import SettingError
from drobench.hints import did_you_mean
from drobench.results.comparison.metrics import COSTS, MEASURES, Known, may_be_metric, value_of
from drobench.results.record import Iterate

__all__ = ["COSTS", "DEFAULT_TARGETS", "Target", "is_met"]

_SHORT_NAMES = {"violation": "train_max_violation", "error": "train_error"}
_VIOLATION = "train_max_violation"


@dataclass(frozen=True)
class Target:
    """What counts as solved: the worst value of each named metric. `gap` is relative.

    Attributes:
        limits: By the name of a metric of the curve.
        at_least: The names of which more is better, so that the limit is the smallest value; the runs say which.
    """

    limits: tuple[tuple[str, float], ...]
    at_least: frozenset[str] = frozenset()

    @classmethod
    def of(cls, **limits: float) -> "Target":
        """Make a target: `Target.of(gap=1e-4, violation=0.01)` or `Target.of(test_worst_group_error=0.3)`.

        Raises:
            SettingError: If a metric is unknown or a limit impossible.
        """
        if not limits:
            raise SettingError("A target needs a limit, such as gap=1e-4; found none.")
        checked = {_SHORT_NAMES.get(name, name): _limit(name, value) for name, value in limits.items()}
        return cls(tuple(checked.items()))

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read a target as it is written on the command line: `gap=1e-4,violation=0.01`."""
        limits = {}
        for part in text.split(","):
            name, equals, value = part.partition("=")
            try:
                limits[name.strip()] = float(value)
            except ValueError:
                equals = ""
            if not equals:
                raise SettingError(
                    f"A target is written METRIC=NUMBER,..., such as gap=1e-4,violation=0.01; found {text!r}."
                )
        return cls.of(**limits)

    def among(self, known: Known) -> "Target":
        """The same target with the full names of metrics, and the direction of each, as the runs have them."""
        limits = tuple((known.resolve(name), limit) for name, limit in self.limits)
        return replace(self, limits=limits, at_least=known.more & {name for name, _ in limits})

    @property
    def gap(self) -> float | None:
        """The relative gap to reach, if it is part of the target."""
        return dict(self.limits).get("gap")

    @property
    def violation(self) -> float | None:
        """The violation of the training constraints that is allowed, if the target says so."""
        return dict(self.limits).get(_VIOLATION)

    @property
    def label(self) -> str:
        """The target for people."""
        long_names = {long: short for short, long in _SHORT_NAMES.items()} | {"gap": "relative gap"}
        return ", ".join(
            f"{long_names.get(name, name).replace('_', ' ')} {'at least ' if name in self.at_least else ''}{limit:g}"
            for name, limit in self.limits
        )


DEFAULT_TARGETS = tuple(Target((("gap", gap),)) for gap in (1e-4, 1e-2, 1e-6))
"""The first decides the ranks; the others tell how a solver does with easier and harder ones."""


def is_met(target: Target, point: Iterate, start_gap: float | None) -> bool:
    """Whether a scored point meets a target."""
    for name, limit in target.limits:
        value = value_of(point, name)
        if name == "gap":
            value = None if value is None or start_gap is None else value / start_gap
        if value is None or not (value >= limit if name in target.at_least else value <= limit):
            return False
    return True


def _limit(name: str, value: float) -> float:
    metric = _SHORT_NAMES.get(name, name)
    if not may_be_metric(metric):
        known = [*_SHORT_NAMES, *(known for known in MEASURES if known not in _SHORT_NAMES.values())]
        raise SettingError(
            f"A target knows the metrics {', '.join(known)}, and those that the problem has, such as "
            f"test_worst_group_error; found {name!r}.{did_you_mean(name, known)}"
        )
    if not math.isfinite(value) or (metric == "gap" and value <= 0):
        expected = "a finite number above 0" if metric == "gap" else "a finite number"
        raise SettingError(f"The limit of `{name}` in a target must be {expected}; found {value!r}.")
    return float(value)
