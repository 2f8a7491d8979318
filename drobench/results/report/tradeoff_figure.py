"""The trade-off figure: error against violation, with the front."""

from collections.abc import Iterable, Sequence
from typing import Any

from drobench.results.report.axes import NUMBER_LABEL, digits
from drobench.results.report.looks import Look, Spec, config, identity
from drobench.results.report.styles import Style
from drobench.results.report.tradeoff import SolverPoints

_DATA = {"train": "training data", "validation": "validation data", "test": "test data"}


def trade_off(solvers: Iterable[Style], look: Look, split: str, allowed: float) -> Spec:
    """Violation and error of runs and medians, with the front; the datasets are `runs` and `middles`.

    Args:
        solvers: The styles.
        look: Page or paper.
        split: The data on which both were measured.
        allowed: The largest violation that counts as feasible.
    """
    chosen = identity(solvers, look)
    looks = {"color": chosen["color"], "shape": chosen["shape"]}
    place = {"type": "quantitative", "scale": {"zero": False, "padding": 14}}
    place |= {"axis": {"labelExpr": NUMBER_LABEL, "tickCount": 6}}
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
        "config": config(look),
    }


def trade_off_rows(points: Sequence[SolverPoints]) -> dict[str, list[dict[str, Any]]]:
    """The datasets of a trade-off figure."""
    return {
        "runs": [
            {"solver": solver.label, "violation": digits(violation), "error": digits(error)}
            for solver in points
            for violation, error in solver.runs
        ],
        "middles": [
            {
                "solver": solver.label,
                "violation": digits(solver.middle[0]),
                "error": digits(solver.middle[1]),
                "efficient": solver.efficient,
            }
            for solver in points
        ],
    }
