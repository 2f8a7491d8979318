"""The figures of a report as PNG and SVG files for papers and slides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import vl_convert

from drobench.errors import DrobenchError, SettingError
from drobench.files import write_atomically
from drobench.results.report.content import BoardView, Content
from drobench.results.report.convergence_figure import convergence, curve_rows, filled, with_band
from drobench.results.report.looks import PAPER, Spec
from drobench.results.report.profile_figure import profile, profile_rows
from drobench.results.report.series import COST_LABELS
from drobench.results.report.tradeoff_figure import trade_off, trade_off_rows

FORMATS = ("png", "svg")
VEGA_LITE = "6.4"
"""The version of Vega-Lite that the specifications are written for; vl-convert carries several."""

# A column of a two-column paper, in points; PNG files have 300 dots per inch.
_WIDTH, _HEIGHT = 300, 190
_DOTS_PER_INCH = 300


class PlotUnwritable(DrobenchError):
    """A figure cannot be written where it should go."""


@dataclass(frozen=True, repr=False)
class Figure:
    """One figure of a report.

    Attributes:
        name: The file name without its ending.
        title: The board it belongs to, and what it shows.
        spec: The specification with its data.
    """

    name: str
    title: str
    spec: Spec

    def rendered(self, form: str) -> bytes:
        """Return the figure as the content of a file of one of `FORMATS`.

        Raises:
            SettingError: If it is none of them.
        """
        _check_format(form)
        return _rendered(self.spec)[form]()

    def save(self, file: str | Path) -> Path:
        """Write the figure; the ending of the file's name says in which of `FORMATS`."""
        target = Path(file)
        write_atomically(target, self.rendered(target.suffix.removeprefix(".")))
        return target

    def _repr_svg_(self) -> str:
        return self.rendered("svg").decode()

    def __repr__(self) -> str:
        return f"<figure {self.name}: {self.title}>"


def all_figures(content: Content) -> Iterator[Figure]:
    """Every figure of a report.

    The most telling measure is drawn against every cost, the other measures against oracle calls (or the first cost
    there is); of the measures that only the problem has those that were asked for; the trade-off for every iterate on
    training and test data; the performance profiles.
    """
    for view in content.boards:
        yield from _convergence_figures(content, view)
        yield from _trade_off_figures(content, view)
    found = content.leaderboard.profiles
    if found is not None:
        spec = profile([content.styles[row.solver] for row in found.rows], PAPER, COST_LABELS[found.cost])
        spec["datasets"] = {"profiles": profile_rows(found)}
        yield Figure("performance_profiles", "Performance profiles across boards", _sized(spec))


def write_plots(content: Content, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write all figures.

    Args:
        content: What to draw.
        folder: Where to; it is created.
        formats: Endings out of `FORMATS`.

    Returns:
        The files, in the order of the report.

    Raises:
        SettingError: If a format is none of `FORMATS`.
        PlotUnwritable: If the folder cannot be written to.
    """
    for name in formats:
        _check_format(name)
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in all_figures(content):
            rendered = _rendered(figure.spec)
            for name in formats:
                target = folder / f"{figure.name}.{name}"
                write_atomically(target, rendered[name]())
                written.append(target)
    except OSError as error:
        raise PlotUnwritable(
            f"The plots cannot be written to {folder} ({error}). Choose another `--output`."
        ) from error
    return written


def _check_format(name: str) -> None:
    if name not in FORMATS:
        raise SettingError(f"The format of a plot must be one of {', '.join(FORMATS)}; found {name!r}.")


def _convergence_figures(content: Content, view: BoardView) -> Iterator[Figure]:
    template = convergence(view.styles(content.styles), PAPER)
    costs, measures = view.cost_channels(), view.measure_channels()
    asked = content.leaderboard.further
    drawn = [measure for measure in view.measures if not measure.own or measure.key in asked]
    for place, measure in enumerate(drawn):
        for cost in view.costs if place == 0 else view.costs[:1]:
            rows = curve_rows(view.curves, cost.key, measure.key)
            if not rows:
                continue
            spec = filled(template, costs[cost.key][cost.scale], measures[measure.key][measure.scale])
            spec["datasets"] = {"curves": with_band(rows, "quartiles")}
            name = f"{view.slug}_{measure.key}_by_{cost.key}"
            yield Figure(name, f"{view.board.title}: {measure.label} against {cost.label}", _sized(spec))


def _trade_off_figures(content: Content, view: BoardView) -> Iterator[Figure]:
    for (iterate, split), points in view.trade_offs.items():
        if split == "validation":
            continue  # it serves to choose among iterates; the page has it
        spec = trade_off(view.styles(content.styles), PAPER, split, view.allowed)
        spec["datasets"] = trade_off_rows(points)
        name = f"{view.slug}_tradeoff_{iterate}_{split}"
        yield Figure(name, f"{view.board.title}: error against violation, {iterate} iterate, {split}", _sized(spec))


def _sized(spec: Spec) -> Spec:
    return spec | {"width": _WIDTH, "height": _HEIGHT, "padding": 6, "background": "white"}


def _rendered(spec: Spec) -> dict[str, Callable[[], bytes]]:
    """What gives each format; both come from the same drawing."""
    drawing = str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE))
    return {
        "png": lambda: bytes(vl_convert.svg_to_png(drawing, ppi=_DOTS_PER_INCH)),
        "svg": drawing.encode,
    }
