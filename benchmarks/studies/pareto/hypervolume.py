"""How much of the plane of error and violation some points dominate.

Both are to be small. A point dominates whatever is at least as large in both; the measure of a set of points is the
area that they dominate together, up to a corner beyond which nothing counts, as a share of the whole area before it.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Point(NamedTuple):
    """Two numbers, of which less is better."""

    error: float
    violation: float


def front(points: Iterable[Point]) -> list[Point]:
    """Return the points that no other dominates, by error; equal ones once."""
    kept: list[Point] = []
    for point in sorted(points):
        if not kept or point.violation < kept[-1].violation:
            kept.append(point)
    return kept


def hypervolume(points: Iterable[Point], corner: Point) -> float:
    """Return the share of the rectangle from 0 to the corner that the points dominate; 0 without points.

    Below zero there is nothing to be gained: a constraint that holds with room to spare only holds.
    """
    inside = [Point(max(error, 0.0), max(violation, 0.0)) for error, violation in points]
    steps = front(point for point in inside if point.error < corner.error and point.violation < corner.violation)
    area, end = 0.0, corner.error
    # From the right, each point dominates a column that reaches to its neighbour.
    for error, violation in reversed(steps):
        area += (end - error) * (corner.violation - violation)
        end = error
    return area / (corner.error * corner.violation)
