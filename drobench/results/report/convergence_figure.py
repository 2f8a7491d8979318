"""The convergence figure: median curves with bands.

The channels `x` and `y` are exchanged when another cost, measure or scale is chosen.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drobench.results.report.axes import digits
from drobench.results.report.bands import SolverCurves
from drobench.results.report.looks import Look, Spec, config, identity
from drobench.results.report.styles import Style

_MARKERS_PER_CURVE = 7


def convergence(solvers: Iterable[Style], look: Look) -> Spec:
    """Median curves with bands; the dataset is `curves`, with one row of arrays per solver (see `curve_rows`)."""
    chosen = identity(solvers, look)
    colour, dash, shape = chosen["color"], chosen["strokeDash"], chosen["shape"]
    median: Spec = {"field": "median", "type": "quantitative"}
    low: Spec = {"field": "low", "type": "quantitative"}
    tooltip = [
        {"field": "solver", "type": "nominal", "title": "solver"},
        {"field": "x", "type": "quantitative", "title": "cost", "format": ".4~g"},
        {"field": "median", "type": "quantitative", "title": "median", "format": ".4~g"},
        {"field": "low", "type": "quantitative", "title": "band from", "format": ".4~g"},
        {"field": "high", "type": "quantitative", "title": "to", "format": ".4~g"},
    ]
    # Seen by the pointer only, and larger than the markers: a finger is not exact.
    under_the_pointer = {
        "mark": {"type": "point", "opacity": 0, "size": 220},
        "encoding": {"y": median, "tooltip": tooltip},
    }
    return {
        "data": {"name": "curves"},
        "transform": [
            {"flatten": ["x", "median", "low", "high"]},
            {"window": [{"op": "row_number", "as": "place"}], "groupby": ["solver"]},
        ],
        "encoding": {"x": {"field": "x", "type": "quantitative"}},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.15, "clip": True},
                "encoding": {"y": low, "y2": {"field": "high"}, "color": colour},
            },
            {
                "mark": {"type": "line", "strokeWidth": 2, "clip": True},
                "encoding": {"y": median, "color": colour, "strokeDash": dash},
            },
            {
                "transform": [{"filter": "datum.place % datum.stride == datum.phase"}],
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 46},
                "encoding": {"y": median, "color": colour, "shape": shape},
            },
            *([under_the_pointer] if look.interactive else []),
        ],
        "config": config(look),
    }


def filled(template: Spec, x: Spec, y: Spec) -> Spec:
    """A convergence figure with its axes, as the page does it when a control is used."""
    spec = copy.deepcopy(template)
    spec["encoding"]["x"] |= x
    for layer in spec["layer"]:
        layer["encoding"]["y"] |= y
    return spec


def curve_rows(curves: Mapping[str, SolverCurves], cost: str, measure: str) -> list[dict[str, Any]]:
    """What a convergence figure draws: one row of arrays per solver, without points that are not finite.

    A band that reaches to infinity is cut at the largest finite value of the figure, or at the least.

    Args:
        curves: The curves by the label of the solver.
        cost: Key of the cost.
        measure: Key of the measure.
    """
    present = {label: found for label, found in curves.items() if (cost, measure) in found.bands}
    finite = [value for found in present.values() for value in _finite(found, cost, measure)]
    floor, ceiling = min(finite, default=0.0), max(finite, default=0.0)
    rows = []
    for position, (label, found) in enumerate(present.items()):
        band = found.bands[cost, measure]
        grid = found.grids[cost]
        stride = max(1, grid.size // _MARKERS_PER_CURVE)
        rows.append(
            {
                "solver": label,
                "stride": stride,
                # Markers of different solvers do not start at the same place, or they would hide each other.
                "phase": (1 + position * max(1, stride // 4)) % stride,
                "x": _rounded(grid),
                "median": _rounded(band.median),
                "quartiles": [_rounded(band.low, floor=floor), _rounded(band.high, ceiling)],
                "extremes": [_rounded(band.least, floor=floor), _rounded(band.most, ceiling)],
            }
        )
    return rows


def with_band(rows: Sequence[Mapping[str, Any]], band: str) -> list[dict[str, Any]]:
    """The rows with the chosen band, `quartiles` or `extremes`, in the fields that the figure draws."""
    return [
        {name: row[name] for name in ("solver", "stride", "phase", "x", "median")}
        | {"low": row[band][0], "high": row[band][1]}
        for row in rows
    ]


def _finite(curves: SolverCurves, cost: str, measure: str) -> list[float]:
    band = curves.bands[cost, measure]
    ends = (band.median, band.low, band.high, band.least, band.most)
    return [float(value) for array in ends for value in array if abs(value) < float("inf")]


def _rounded(values: Iterable[float], ceiling: float | None = None, floor: float | None = None) -> list[float | None]:
    """Numbers with the digits that a figure can show; `None`, or the end of the figure, for what is infinite."""
    above, below = (None if end is None else digits(end) for end in (ceiling, floor))
    return [digits(value) if abs(value) < float("inf") else above if value > 0 else below for value in values]
