"""The axes of a figure: titles, scales, ticks and the digits of numbers."""

import math
import sys

from drobench.results.report.looks import Spec
from drobench.results.report.series import Quantity

_COUNTED = ("oracle_calls", "communication_bytes")
_SIGNED = ("objective", "train_max_violation", "test_max_violation")
# 20k and 3M for what is counted; otherwise powers of ten only where a plain number would be all zeros.
_COUNT_LABEL = "format(datum.value, '~s')"
NUMBER_LABEL = (
    "datum.value != 0 && (abs(datum.value) < 0.001 || abs(datum.value) >= 10000)"
    " ? format(datum.value, '~e') : format(datum.value, '~g')"
)
"""The expression that writes the label of a tick."""

_MARGIN = 0.7  # of the smallest value: how far below it a log axis begins
_FEWEST_TICKS, _MOST_TICKS = 3, 8
_DIGITS = 5


def channel(quantity: Quantity, scale: str, positive: tuple[float, float] | None) -> Spec:
    """Title, scale and axis of a quantity.

    Args:
        quantity: What is shown.
        scale: `linear` or `log`.
        positive: The smallest and the largest positive value that is shown; without them a log axis is not possible.
    """
    axis: Spec = {"labelExpr": _COUNT_LABEL if quantity.key in _COUNTED else NUMBER_LABEL, "tickCount": 6}
    if scale == "linear" or positive is None:
        return {"title": quantity.label, "axis": axis, "scale": {"type": "linear", "zero": False, "nice": False}}
    if quantity.key in _SIGNED or quantity.more:
        # Signed quantities have no logarithm; this scale is linear around zero and logarithmic further out.
        symmetric = {"type": "symlog", "constant": 0.01, "zero": False, "nice": False}
        return {"title": f"{quantity.label} (symmetric log)", "axis": axis, "scale": symmetric}
    # Zero and what lies below, such as the start of a run or a gap beyond the certificate, stand at the edge.
    first = max(digits(positive[0] * _MARGIN), sys.float_info.min)
    logarithmic = {"type": "log", "domainMin": first, "clamp": True, "nice": False}
    ticks = {"labelExpr": axis["labelExpr"], "values": log_ticks(first, positive[1])}
    return {"title": quantity.label, "axis": ticks, "scale": logarithmic}


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, not too many; where there are hardly any, also twice and five times them."""
    # A stranger's curve may go to the end of all numbers, beyond which there is no power of ten.
    powers = range(math.floor(math.log10(low)), min(math.ceil(math.log10(high)), sys.float_info.max_10_exp) + 1)
    inside = [power for power in powers if low <= 10.0**power <= high]
    if len(inside) < _FEWEST_TICKS:
        return [
            tick for power in powers for factor in (1, 2, 5) if low <= (tick := digits(factor * 10.0**power)) <= high
        ]
    stride = -(-len(inside) // _MOST_TICKS)
    return [10.0**power for power in inside if power % stride == 0]


def digits(value: float) -> float:
    """A number with the digits that a figure can show."""
    return float(f"{value:.{_DIGITS}g}")
