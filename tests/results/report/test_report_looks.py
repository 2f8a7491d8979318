"""How figures look in the page and on paper."""

from drobench.results.report.looks import PAGE, PAPER, config, identity
from drobench.results.report.styles import LIGHT, styles


def test_each_solver_has_a_colour_a_marker_and_a_dash():
    chosen = styles(["a", "b"])
    found = identity(chosen.values(), PAPER)
    assert set(found) == {"color", "shape", "strokeDash"}
    assert all(part["scale"]["domain"] == ["a", "b"] for part in found.values())
    assert found["color"]["scale"]["range"] == list(LIGHT[:2])
    assert found["strokeDash"]["scale"]["range"] == [list(chosen["a"].dash), list(chosen["b"].dash)]


def test_paper_has_a_legend_and_the_page_its_own():
    solvers = styles(["a"]).values()
    assert identity(solvers, PAPER)["color"]["legend"]["title"] is None
    assert identity(solvers, PAGE)["color"]["legend"] is None
    assert identity(solvers, PAPER)["strokeDash"]["legend"] is None


def test_the_page_takes_its_colours_from_the_style_sheet():
    assert PAGE.colours[0] == "var(--series-0)"
    assert len(PAGE.colours) == len(LIGHT)
    assert config(PAGE)["axis"]["labelColor"] == "var(--quiet)"
    assert config(PAPER)["font"].startswith("Helvetica")
