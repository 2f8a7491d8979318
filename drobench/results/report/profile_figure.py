"""The figure of performance profiles across boards."""

from collections.abc import Iterable
from typing import Any

from drobench.results.comparison.profiles import LARGEST_RATIO, Profiles
from drobench.results.report.axes import NUMBER_LABEL, digits
from drobench.results.report.looks import Look, Spec, config, identity
from drobench.results.report.styles import Style


def profile(solvers: Iterable[Style], look: Look, cost: str) -> Spec:
    """Performance profiles as steps; the dataset is `profiles`, with one row of arrays per solver (`profile_rows`).

    Args:
        solvers: The styles.
        look: Page or paper.
        cost: What is counted, in words.
    """
    chosen = identity(solvers, look)
    axis = {"type": "quantitative", "axis": {"labelExpr": NUMBER_LABEL, "tickCount": 6}}
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
        "encoding": {"x": ratio, "y": share, "color": chosen["color"]},
        "layer": [
            {"mark": step, "encoding": {"strokeDash": chosen["strokeDash"]}},
            {"mark": marker, "encoding": {"shape": chosen["shape"], "tooltip": tooltip}},
        ],
        "config": config(look),
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
                "ratio": [digits(ratio) for ratio in ratios],
                "share": [digits(row.share(ratio)) for ratio in ratios],
            }
        )
    return rows
