"""The text of one cell of a board."""

import math
import re

from drobench.results.comparison.rows import Comparison, Reached, Row, Summary
from drobench.results.comparison.targets import Target
from drobench.results.comparison.tuning import Tuning

MISSING = "-"
NEVER = "never"
FAILED = "failed"
_UNITS = {
    **dict.fromkeys(("train_error", "validation_error", "test_error"), "error"),
    "train_max_violation": "viol.",
}
_EXPONENT = re.compile(r"e(-?)\+?0*")


def quality(value: float | None) -> str:
    """A number with three digits; a word where the run failed, a dash where there is none."""
    return _number(value, FAILED)


def with_interval(summary: Summary | None, infinite: str) -> str:
    """A median and, unless all runs agree, its interval."""
    if summary is None:
        return MISSING
    middle = _number(summary.median, infinite)
    if summary.low == summary.high or middle == infinite:
        return middle
    return f"{middle} [{_number(summary.low, infinite)}, {_number(summary.high, infinite)}]"


def effect(comparison: Comparison | None, solver: str) -> str:
    """How much worse (or better) a solver is than the one it is compared with."""
    if comparison is None or comparison.effect is None:
        return MISSING
    size = comparison.effect.median
    forward = comparison.worse == solver
    if comparison.is_ratio:
        size = size if forward else (1 / size if size else math.inf)
        return NEVER if math.isinf(size) else f"{_number(size, NEVER)}x"
    size = size if forward else -size
    return (
        FAILED
        if math.isinf(size)
        else f"{'+' if size > 0 else ''}{_number(size, FAILED)} "
        f"{_UNITS.get(comparison.quantity, comparison.quantity.replace('_', ' '))}"
    )


def tried(tuning: Tuning | None) -> str:
    """How many configurations a solver was chosen from, at what cost."""
    if tuning is None:
        return MISSING
    return (
        f"{tuning.configurations} ({_number(tuning.oracle_calls, MISSING)} calls, {_number(tuning.seconds, MISSING)} s)"
    )


def cost(found: Reached, row: Row, cost: str, with_ends: bool) -> str:
    """What reaching a target cost; where only some runs did, how many."""
    summary = found.costs[cost]
    text = with_interval(summary, NEVER) if with_ends else never_or(summary)
    times = round(found.share * row.runs)
    return f"{text} ({times}/{row.runs})" if 0 < times < row.runs else text


def never_or(summary: Summary | None) -> str:
    """The median of a cost."""
    return _number(None if summary is None else summary.median, NEVER)


def short_target(target: Target) -> str:
    """A gap alone as a number, any other target by a word; the text below the table has it in full."""
    if target.gap is None or len(target.limits) > 1:
        return "target"
    return _tidy(f"{target.gap:.0e}" if f"{target.gap:e}".startswith("1.000000") else f"{target.gap:g}")


def positions(interval: tuple[int, int] | None) -> str:
    """Between which positions a solver stays."""
    if interval is None:
        return MISSING
    low, high = interval
    return str(low) if low == high else f"{low}-{high}"


def p_value(comparison: Comparison | None) -> str:
    """The adjusted p-value of a comparison."""
    return MISSING if comparison is None else f"{comparison.p_adjusted:.2g}"


def _number(value: float | None, infinite: str) -> str:
    if value is None:
        return MISSING
    # Three digits are more than a few seeds can tell, and a terminal is narrow: 1e-6, not 1e-06.
    return _tidy(f"{value:.3g}") if math.isfinite(value) else infinite


def _tidy(text: str) -> str:
    return _EXPONENT.sub(r"e\1", text)
