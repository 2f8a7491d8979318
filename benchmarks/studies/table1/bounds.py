"""What is stated about the methods, as functions of size and accuracy; constants are taken to be one.

From the paper's Table 1: `midtouch`, `strongly_convex`, `non_convex`. Its erratum: `strongly_convex_hidden`. From the
literature at large: the two lower bounds.
"""

import math
from collections.abc import Callable

Bound = Callable[[int, float], float]


def midtouch(size: int, eps: float) -> float:
    """Constraint checks of MidTouch for `size` constraints, all four terms."""
    log = math.log(size)
    return (
        log / eps
        + size**1.5 * log**1.5 / eps**0.75
        + size * log ** (2 / 3) / eps ** (2 / 3)
        + size**2 * log / math.sqrt(eps)
    )


def strongly_convex(size: int, eps: float, condition: float) -> float:
    """GCIVR on a strongly convex problem: `(m + kappa sqrt(m)) ln(1/eps)`."""
    return (size + condition * math.sqrt(size)) * math.log(1 / eps)


def strongly_convex_hidden(size: int, eps: float) -> float:
    """The same with the condition number that a width of `eps / ln(m + 1)` brings: `ln(m + 1) / eps`."""
    return strongly_convex(size, eps, math.log(size + 1) / eps)


def non_convex(size: int, eps: float) -> float:
    """GCIVR to a squared gradient mapping of eps."""
    return min(math.sqrt(size) / eps, eps**-1.5)


def strongly_convex_below(size: int, eps: float, condition: float) -> float:
    """No method of gradients of single terms does better on every strongly convex sum (Woodworth, Srebro 2016)."""
    return (size + math.sqrt(size * condition)) * math.log(1 / eps)


def non_convex_below(size: int, eps: float) -> float:
    """Nor on every smooth sum of not too many terms, to a squared gradient of eps (Fang, Li, Lin, Zhang 2018)."""
    return math.sqrt(size) / eps
