"""The outcomes as a table, and what they say about the goals."""

import math
from itertools import pairwise

from benchmarks.speed.wasserstein.outcome import COMMON, GCIVR, TARGET, Outcome

SPEED_GOAL, SPEED_ROWS = 10.0, 10_000
MEMORY_SLACK = 1.5


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as aligned text, one block per size."""
    lines = [("m", "method", "seconds", "CPU s", "/ GCIVR", "final gap", "memory", "note")]
    for rows in dict.fromkeys(outcome.rows for outcome in outcomes):
        block = [outcome for outcome in outcomes if outcome.rows == rows]
        optimum, _ = certified(block)
        base = _base(block)
        for outcome in block:
            gap = outcome.value - optimum
            late = "" if outcome.failed or gap <= TARGET or outcome.method.startswith(GCIVR) else "misses 1e-5; "
            lines.append(
                (
                    str(rows),
                    outcome.method,
                    _number(outcome.seconds, ".2f"),
                    _number(outcome.cpu_seconds, ".2f"),
                    _number(outcome.cpu_seconds / base, ".1f"),
                    _number(gap, ".1e"),
                    _number(outcome.megabytes, ".1f") + " MB",
                    late + outcome.note,
                )
            )
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    left = (1, 7)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def certified(block: list[Outcome]) -> tuple[float, float]:
    """Return the lowest value found on an instance and how far it is above the best lower bound."""
    best = min((outcome.value for outcome in block if not outcome.failed), default=math.nan)
    return best, best - max(outcome.bound for outcome in block)


def goals(outcomes: list[Outcome]) -> list[str]:
    """Return what is known of the optima, and whether the goals are met."""
    lines = []
    for rows in dict.fromkeys(outcome.rows for outcome in outcomes):
        best, above = certified([outcome for outcome in outcomes if outcome.rows == rows])
        trust = "certified" if above <= 0.1 * TARGET else "the lowest value found, not certified to the target"
        lines.append(f"J* at m = {rows}: {best:.9f}, at most {above:.1e} above the optimum ({trust})")
    speed = [outcome for outcome in outcomes if outcome.rows == SPEED_ROWS]
    common = next((outcome for outcome in speed if outcome.method == COMMON), None)
    if common is not None:
        ratio = common.cpu_seconds / _base(speed)
        met = _met(ratio >= SPEED_GOAL)
        lines.append(f"goal, GCIVR at least {SPEED_GOAL:g}x faster than cvxpy at m = 1e4: {ratio:.1f}x, {met}")
    gcivr = sorted((outcome.rows, outcome.megabytes) for outcome in outcomes if outcome.method == GCIVR)
    for (fewer, less), (more, much) in pairwise(gcivr):
        growth, allowed = much / max(less, 1.0), MEMORY_SLACK * more / fewer
        lines.append(
            f"goal, memory of GCIVR linear in m: {much:.1f} MB at {more} rows against {less:.1f} MB at {fewer}, "
            f"{_met(growth <= allowed)}"
        )
    return lines


def _base(block: list[Outcome]) -> float:
    """Return the CPU seconds of GCIVR: with its defaults, or with the first settings that met the target."""
    times = [outcome.cpu_seconds for outcome in block if outcome.method.startswith(GCIVR)]
    return next((seconds for seconds in times if math.isfinite(seconds)), math.nan)


def _met(met: bool) -> str:
    return "met" if met else "NOT met"


def _number(number: float, form: str) -> str:
    return format(number, form) if math.isfinite(number) else "-"
