"""How a figure looks, in the page and on paper: colours, markers, dashes, fonts.

The figures are Vega-Lite specifications: the page draws them in the browser, `plots` turns them into PNG and SVG. A
specification holds no data of its own: named datasets are filled in by whoever draws it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from drobench.results.report.styles import LIGHT, Style

Spec = dict[str, Any]
"""A Vega-Lite specification, or a part of one."""


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


def identity(solvers: Iterable[Style], look: Look) -> dict[str, Spec]:
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


def config(look: Look) -> Spec:
    """What all figures have in common."""
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
