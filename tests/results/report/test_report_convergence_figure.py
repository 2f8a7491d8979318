"""The figure of median curves: the same for page and paper."""

import json

from result_samples import make_curve, make_record

from drobench.results.record import Status
from drobench.results.report.bands import solver_curves
from drobench.results.report.convergence_figure import convergence, curve_rows, filled, with_band
from drobench.results.report.looks import PAGE, PAPER
from drobench.results.report.series import run_series
from drobench.results.report.styles import styles


def series(objectives, optimum=None, status=Status.BUDGET_SPENT, **columns):
    record = make_record(optimum=optimum, status=status, reason="because")
    return run_series(record, make_curve(objectives, optimum, **columns))


def test_page_and_paper_differ_in_nothing_but_colours_fonts_legend_and_tooltips():
    chosen = list(styles(["a", "b"]).values())
    page, paper = convergence(chosen, PAGE), convergence(chosen, PAPER)
    assert len(page["layer"]) == len(paper["layer"]) + 1
    for mine, theirs in zip(page["layer"], paper["layer"], strict=False):
        assert mine["mark"] == theirs["mark"]
        assert mine["encoding"]["y"] == theirs["encoding"]["y"]
    assert page["transform"] == paper["transform"]


def test_rows_of_a_figure_have_no_infinity_and_cut_the_open_band_at_the_largest_value():
    failed = series([3.0, 9.0], status=Status.DIVERGED, passes=[0.0, 1.0])
    good = series([3.0, 2.0, 1.0], passes=[0.0, 1.0, 2.0])
    curves = {"alpha": solver_curves([failed, good], points=50), "beta": solver_curves([good], points=50)}
    alpha, beta = with_band(curve_rows(curves, "passes", "objective"), "extremes")
    assert alpha["x"] == [0.0, 1.0, 2.0]
    assert alpha["median"] == [3.0, 5.5, None], "half of the runs failed, so there is no median any more"
    assert alpha["low"] == [3.0, 2.0, 1.0]
    assert alpha["high"] == [3.0, 9.0, 9.0]
    assert beta["median"] == [3.0, 2.0, 1.0]
    assert curve_rows(curves, "communication_bytes", "objective") == []


def test_filling_in_the_axes_leaves_the_template_as_it_was():
    template = convergence(styles(["a"]).values(), PAPER)
    before = json.dumps(template)
    spec = filled(template, {"title": "passes"}, {"title": "gap"})
    assert json.dumps(template) == before
    assert spec["encoding"]["x"]["title"] == "passes"
    assert {layer["encoding"]["y"]["title"] for layer in spec["layer"]} == {"gap"}


def test_markers_of_different_solvers_start_at_different_places():
    runs = [series([float(value) for value in range(60, 0, -1)])]
    curves = {name: solver_curves(runs, points=60) for name in "abc"}
    rows = curve_rows(curves, "passes", "objective")
    assert {row["stride"] for row in rows} == {8}
    assert len({row["phase"] for row in rows}) == 3
