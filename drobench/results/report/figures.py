"""The figures as Vega-Lite specifications: the page draws them in the browser, `plots` turns them into PNG and SVG.

A specification holds no data of its own: named datasets are filled in by whoever draws it, and the channels `x` and `y`
of a convergence figure are exchanged when another cost, measure or scale is chosen.
"""

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drobench.results.comparison.profiles import LARGEST_RATIO, Profiles
from drobench.results.report.bands import SolverCurves
from drobench.results.report.series import Quantity
from drobench.results.report.styles import LIGHT, Style
from drobench.results.report.tradeoff import SolverPoints

Spec = dict[str, Any]

_COUNTED = ("oracle_calls", "communication_bytes")
_SIGNED = ("objective", "train_max_violation", "test_max_violation")
# 20k and 3M for what is counted; otherwise powers of ten only where a plain number would be all zeros.
_COUNT_LABEL = "format(datum.value, '~s')"
_NUMBER_LABEL = (
    "datum.value != 0 && (abs(datum.value) < 0.001 || abs(datum.value) >= 10000)"
    " ? format(datum.value, '~e') : format(datum.value, '~g')"
)
_MARGIN = 0.7  # of the smallest value: how far below it a log axis begins
_FEWEST_TICKS, _MOST_TICKS = 3, 8
_MARKERS_PER_CURVE = 7
_DIGITS = 5
_DATA = {"train": "training data", "validation": "validation data", "test": "test data"}


@dataclass(frozen=True)
class Look:
    """What differs between a figure in the page and one on paper.

    Attributes:
        colours: One per position in the palette; in the page these are variables of its style sheet.
        text: Colour of labels and titles.
        grid: Colour of grid lines.
        rule: Colour of axes and reference lines.
        font: Font family.
        interactive: Whether the figure is drawn in the page, which has a legend of its own and shows numbers on demand.
    """

    colours: tuple[str, ...]
    text: str
    grid: str
    rule: str
    font: str
    interactive: bool


PAPER = Look(LIGHT, "#24292f", "#e6e8eb", "#6b7280", "Helvetica, Arial, sans-serif", interactive=False)
PAGE = Look(
    tuple(f"var(--series-{place})" for place in range(len(LIGHT))),
    "var(--quiet)",
    "var(--hairline)",
    "var(--rule)",
    "system-ui, sans-serif",
    interactive=True,
)


def channel(quantity: Quantity, scale: str, positive: tuple[float, float] | None) -> Spec:
    """Title, scale and axis of a quantity.

    Args:
        quantity: What is shown.
        scale: `linear` or `log`.
        positive: The smallest and the largest positive value that is shown; without them a log axis is not possible.
    """
    axis: Spec = {"labelExpr": _COUNT_LABEL if quantity.key in _COUNTED else _NUMBER_LABEL, "tickCount": 6}
    if scale == "linear" or positive is None:
        return {"title": quantity.label, "axis": axis, "scale": {"type": "linear", "zero": False, "nice": False}}
    if quantity.key in _SIGNED:
        # Signed quantities have no logarithm; this scale is linear around zero and logarithmic further out.
        symmetric = {"type": "symlog", "constant": 0.01, "zero": False, "nice": False}
        return {"title": f"{quantity.label} (symmetric log)", "axis": axis, "scale": symmetric}
    # Zero and what lies below, such as the start of a run or a gap beyond the certificate, stand at the edge.
    first = _digits(positive[0] * _MARGIN)
    logarithmic = {"type": "log", "domainMin": first, "clamp": True, "nice": False}
    ticks = {"labelExpr": axis["labelExpr"], "values": log_ticks(first, positive[1])}
    return {"title": quantity.label, "axis": ticks, "scale": logarithmic}


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, not too many; where there are hardly any, also twice and five times them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside = [power for power in powers if low <= 10.0**power <= high]
    if len(inside) < _FEWEST_TICKS:
        return [
            tick for power in powers for factor in (1, 2, 5) if low <= (tick := _digits(factor * 10.0**power)) <= high
        ]
    stride = -(-len(inside) // _MOST_TICKS)
    return [10.0**power for power in inside if power % stride == 0]


def convergence(solvers: Iterable[Style], look: Look) -> Spec:
    """Median curves with bands; the dataset is `curves`, with one row of arrays per solver (see `curve_rows`)."""
    identity = _identity(solvers, look)
    colour, dash, shape = identity["color"], identity["strokeDash"], identity["shape"]
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
        "config": _config(look),
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

    A band that reaches to infinity is cut at the largest finite value of the figure.

    Args:
        curves: The curves by the label of the solver.
        cost: Key of the cost.
        measure: Key of the measure.
    """
    present = {label: found for label, found in curves.items() if (cost, measure) in found.bands}
    ceiling = max((_largest_finite(found, cost, measure) for found in present.values()), default=0.0)
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
                "quartiles": [_rounded(band.low), _rounded(band.high, ceiling)],
                "extremes": [_rounded(band.least), _rounded(band.most, ceiling)],
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


def trade_off(solvers: Iterable[Style], look: Look, split: str, allowed: float) -> Spec:
    """Violation and error of runs and medians, with the front; the datasets are `runs` and `middles`.

    Args:
        solvers: The styles.
        look: Page or paper.
        split: The data on which both were measured.
        allowed: The largest violation that counts as feasible.
    """
    identity = _identity(solvers, look)
    looks = {"color": identity["color"], "shape": identity["shape"]}
    place = {"type": "quantitative", "scale": {"zero": False, "padding": 14}}
    place |= {"axis": {"labelExpr": _NUMBER_LABEL, "tickCount": 6}}
    violation = place | {"field": "violation", "title": f"largest violation, {_DATA[split]}"}
    error = place | {"field": "error", "title": f"error, {_DATA[split]}"}
    position = {"x": violation, "y": error}
    tooltip = [
        {"field": "solver", "type": "nominal", "title": "solver"},
        {"field": "violation", "type": "quantitative", "title": "violation", "format": ".4~g"},
        {"field": "error", "type": "quantitative", "title": "error", "format": ".4~g"},
    ]
    border: Spec = {"data": {"values": [{"violation": allowed}]}, "encoding": {"x": violation}}
    text = {"type": "text", "text": "feasible", "angle": 270, "align": "right", "dy": -8, "color": look.text}
    return {
        "layer": [
            border | {"mark": {"type": "rule", "color": look.rule, "strokeDash": [3, 3]}},
            border | {"mark": text, "encoding": {"x": violation, "y": {"value": 2}}},
            {
                "data": {"name": "middles"},
                "transform": [{"filter": "datum.efficient"}],
                "mark": {"type": "line", "color": look.rule, "strokeWidth": 1.5, "interpolate": "step-after"},
                "encoding": position | {"order": {"field": "violation", "type": "quantitative"}},
            },
            {
                "data": {"name": "runs"},
                "mark": {"type": "point", "filled": True, "opacity": 0.5, "size": 28},
                "encoding": position | looks | {"tooltip": tooltip},
            },
            {
                "data": {"name": "middles"},
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 130},
                "encoding": position | looks | {"tooltip": tooltip},
            },
        ],
        "config": _config(look),
    }


def trade_off_rows(points: Sequence[SolverPoints]) -> dict[str, list[dict[str, Any]]]:
    """The datasets of a trade-off figure."""
    return {
        "runs": [
            {"solver": solver.label, "violation": _digits(violation), "error": _digits(error)}
            for solver in points
            for violation, error in solver.runs
        ],
        "middles": [
            {
                "solver": solver.label,
                "violation": _digits(solver.middle[0]),
                "error": _digits(solver.middle[1]),
                "efficient": solver.efficient,
            }
            for solver in points
        ],
    }


def profile(solvers: Iterable[Style], look: Look, cost: str) -> Spec:
    """Performance profiles as steps; the dataset is `profiles`, with one row of arrays per solver (`profile_rows`).

    Args:
        solvers: The styles.
        look: Page or paper.
        cost: What is counted, in words.
    """
    identity = _identity(solvers, look)
    axis = {"type": "quantitative", "axis": {"labelExpr": _NUMBER_LABEL, "tickCount": 6}}
    ratio = axis | {"field": "ratio", "title": f"{cost}, times the least of any solver"}
    ratio |= {"scale": {"type": "linear", "domain": [1, LARGEST_RATIO], "nice": False}}
    share = axis | {"field": "share", "title": "share of instances", "scale": {"domain": [0, 1], "nice": False}}
    tooltip = [
        {"field": "solver", "type": "nominal", "title": "solver"},
        {"field": "ratio", "type": "quantitative", "title": "within this factor", "format": ".3~g"},
        {"field": "share", "type": "quantitative", "title": "share of instances", "format": ".0%"},
    ]
    step = {"type": "line", "interpolate": "step-after", "strokeWidth": 2}
    marker = {"type": "point", "filled": True, "opacity": 1, "size": 46}
    return {
        "data": {"name": "profiles"},
        "transform": [{"flatten": ["ratio", "share"]}],
        "encoding": {"x": ratio, "y": share, "color": identity["color"]},
        "layer": [
            {"mark": step, "encoding": {"strokeDash": identity["strokeDash"]}},
            {"mark": marker, "encoding": {"shape": identity["shape"], "tooltip": tooltip}},
        ],
        "config": _config(look),
    }


def profile_rows(found: Profiles) -> list[dict[str, Any]]:
    """What a profile figure draws: for each solver the ratios at which its profile rises, and both ends."""
    rows = []
    for row in found.rows:
        inside = sorted({ratio for ratio in row.ratios if 1 < ratio < LARGEST_RATIO})
        ratios = [1.0, *inside, LARGEST_RATIO]
        rows.append(
            {
                "solver": row.solver,
                "ratio": [_digits(ratio) for ratio in ratios],
                "share": [_digits(row.share(ratio)) for ratio in ratios],
            }
        )
    return rows


def _identity(solvers: Iterable[Style], look: Look) -> dict[str, Spec]:
    """Colour, marker and dash of each solver; colour and marker share one legend where there is one."""
    chosen = list(solvers)
    domain = [style.label for style in chosen]
    legend = (
        {"title": None, "symbolSize": 90, "symbolOpacity": 1, "symbolStrokeWidth": 0, "labelLimit": 260}
        if not look.interactive
        else None
    )

    def by_solver(values: Sequence[Any], legend: Spec | None) -> Spec:
        scale = {"domain": domain, "range": list(values)}
        return {"field": "solver", "type": "nominal", "scale": scale, "legend": legend}

    return {
        "color": by_solver([look.colours[style.colour] for style in chosen], legend),
        "shape": by_solver([style.marker for style in chosen], legend),
        # In the legend it would only fray the outlines of the markers.
        "strokeDash": by_solver([list(style.dash) for style in chosen], None),
    }


def _config(look: Look) -> Spec:
    return {
        "background": "transparent",
        # The text around a figure describes it; a label on each of its points would only be noise to a screen reader.
        "aria": False,
        "font": look.font,
        "view": {"stroke": None},
        "axis": {
            "labelColor": look.text,
            "titleColor": look.text,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "gridColor": look.grid,
            "domainColor": look.rule,
            "tickColor": look.rule,
            "tickSize": 4,
            "labelPadding": 4,
        },
        "legend": {"labelColor": look.text, "labelFontSize": 11},
        "title": {"color": look.text, "fontSize": 13, "fontWeight": "normal", "anchor": "start"},
    }


def _largest_finite(curves: SolverCurves, cost: str, measure: str) -> float:
    band = curves.bands[cost, measure]
    values = [
        float(value) for array in (band.median, band.high, band.most) for value in array if abs(value) < float("inf")
    ]
    return max(values, default=0.0)


def _rounded(values: Iterable[float], ceiling: float | None = None) -> list[float | None]:
    """Numbers with the digits that a figure can show; `None`, or the ceiling, for what is infinite."""
    limit = None if ceiling is None else _digits(ceiling)
    return [_digits(value) if abs(value) < float("inf") else limit for value in values]


def _digits(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
