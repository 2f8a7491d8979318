"""How solvers are told apart: by colour, dash and marker together, so that any one of them may be lost.

The hues follow the palette of Okabe and Ito, which people with the common kinds of colour blindness can tell apart;
each has a version for light and one for dark backgrounds with a contrast of at least 3 to 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass

LIGHT = ("#0072b2", "#d55e00", "#00875f", "#b5508f", "#8f6a00", "#3d434d", "#1f8fc9", "#6a3d9a")
DARK = ("#5fb0e5", "#f28a4b", "#35c795", "#e39ac6", "#dcb13c", "#d3d8df", "#9ad6f7", "#b699e6")
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (13, 4), (4, 2, 1, 2))
MARKERS = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")


@dataclass(frozen=True)
class Style:
    """The look of one solver in every figure.

    Attributes:
        label: The solver.
        colour: Position in `LIGHT` and `DARK`.
        dash: Lengths of strokes and spaces.
        marker: A Vega symbol.
    """

    label: str
    colour: int
    dash: tuple[int, ...]
    marker: str


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """One style per label, the same whatever the order of the labels."""
    return {
        label: Style(label, place % len(LIGHT), DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)])
        for place, label in enumerate(sorted(set(labels)))
    }
