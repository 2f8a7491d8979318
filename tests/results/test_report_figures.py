"""The specifications of the figures: valid Vega-Lite, the same for page and paper, told apart without colour."""

import json

import pytest
from report_samples import make_runs

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.profiles import Profile, Profiles
from drobench.results.comparison.question import Question
from drobench.results.comparison.targets import Target
from drobench.results.record import Status
from drobench.results.report.axes import channel, log_ticks
from drobench.results.report.content import gather
from drobench.results.report.convergence_figure import convergence
from drobench.results.report.looks import PAGE, PAPER
from drobench.results.report.plots import all_figures
from drobench.results.report.profile_figure import profile_rows
from drobench.results.report.series import MEASURES, Quantity
from drobench.results.report.styles import DARK, LIGHT, styles
from drobench.results.report.tables import compact

LIGHT_PAPER, DARK_PAPER = "#fbfbfa", "#131519"


@pytest.fixture(scope="module")
def content():
    return contents(make_runs(3, 3, 2), make_runs(2, 2, constrained=True))


def contents(*samples):
    records = [record for found, _ in samples for record in found]
    curves = {run_id: curve for _, found in samples for run_id, curve in found.items()}
    return gather(leaderboard(records, curves.__getitem__), records, curves.__getitem__)


def test_every_figure_fits_the_schema_of_vega_lite(content):
    import altair
    import jsonschema

    drawn = list(all_figures(content))
    for figure in drawn:
        altair.LayerChart.from_dict(figure.spec, validate=True)
    broken = json.loads(json.dumps(drawn[0].spec))
    broken["layer"][0]["mark"] = {"type": "scribble"}
    with pytest.raises(jsonschema.ValidationError):
        altair.LayerChart.from_dict(broken, validate=True)


def test_page_and_paper_differ_in_nothing_but_colours_fonts_legend_and_tooltips(content):
    chosen = list(content.styles.values())
    page, paper = convergence(chosen, PAGE), convergence(chosen, PAPER)
    assert len(page["layer"]) == len(paper["layer"]) + 1
    for mine, theirs in zip(page["layer"], paper["layer"], strict=False):
        assert mine["mark"] == theirs["mark"]
        assert mine["encoding"]["y"] == theirs["encoding"]["y"]
    assert page["transform"] == paper["transform"]


def test_names_are_data_and_never_fields_or_expressions():
    hostile = "a'] || alert(1) || ['"
    content = contents(make_runs(1, 2, names=[hostile]))
    for figure in all_figures(content):
        bare = {key: value for key, value in figure.spec.items() if key != "datasets"}
        text = json.dumps(bare)
        assert text.count(json.dumps(hostile)) == text.count("alert"), "only as a whole text in the domain of a scale"
        for layer in bare["layer"]:
            for encoded in layer["encoding"].values():
                assert "alert" not in str(encoded.get("field") if isinstance(encoded, dict) else "")


def test_log_axis_starts_below_the_smallest_positive_value_and_clamps_the_rest():
    gap = MEASURES[1]
    log = channel(gap, "log", (1e-4, 1.0))
    assert log["scale"] == {"type": "log", "domainMin": 7e-5, "clamp": True, "nice": False}
    assert channel(gap, "linear", (1e-4, 1.0))["scale"]["type"] == "linear"
    assert channel(gap, "log", None)["scale"]["type"] == "linear", "nothing positive: no logarithm"
    signed = Quantity("train_max_violation", "violation", "linear")
    assert channel(signed, "log", (1e-4, 1.0))["scale"]["type"] == "symlog"


def test_log_ticks_are_powers_of_ten_and_few():
    assert log_ticks(3e-4, 2.0) == [0.001, 0.01, 0.1, 1.0]
    assert log_ticks(0.15, 7.0) == [0.2, 0.5, 1.0, 2.0, 5.0]
    many = log_ticks(1e-15, 1e3)
    assert 3 <= len(many) <= 8
    assert many == sorted(many)


def test_profile_rises_where_a_ratio_is_reached():
    row = Profile("alpha", 0.5, 0.4, 0.6, 0.75, None, (1.0, 2.0, 9.0, float("inf")))
    found = Profiles((row,), "passes", "alpha", ("one", "two"), 4, 0, ())
    (drawn,) = profile_rows(found)
    # By hand: one of four at 1, two of four from 2 on; 9 lies beyond the edge.
    assert drawn == {"solver": "alpha", "ratio": [1.0, 2.0, 4.0], "share": [0.25, 0.5, 0.5]}


def test_styles_do_not_depend_on_the_order_and_differ_without_colour():
    labels = [f"solver {number:02d}" for number in range(24)]
    found = styles(labels)
    assert found == styles(reversed(labels))
    assert len({(style.dash, style.marker) for style in found.values()}) == 24
    first = [found[label] for label in labels[:6]]
    assert len({style.colour for style in first}) == len({style.dash for style in first}) == 6


@pytest.mark.parametrize(
    ("value", "text"),
    [(65213.4, "65,213"), (0.01234567, "0.01235"), (1.18e-6, "1.18e-6"), (190.31, "190.3"), (0.0, "0")],
)
def test_numbers_in_sentences_are_easy_to_read(value, text):
    assert compact(value) == text


@pytest.mark.parametrize(("palette", "background"), [(LIGHT, LIGHT_PAPER), (DARK, DARK_PAPER)])
def test_every_colour_has_a_contrast_of_three_to_one(palette, background):
    for colour in palette:
        assert contrast(colour, background) >= 3, colour


def contrast(one, other):
    """By the formula of WCAG 2.1."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_feasible_border_is_the_violation_that_the_target_allows_or_else_the_problem():
    records, curves = make_runs(2, 2, constrained=True)

    def border(**question):
        tables = leaderboard(records, curves.__getitem__, Question.of(**question))
        return gather(tables, records, curves.__getitem__).boards[0].allowed

    assert border() == 0.0
    assert border(targets=[Target.of(error=0.2, violation=0.05)]) == 0.05


def test_failed_board_has_no_figures():
    content = contents(make_runs(2, 2, points=0, failing={(s, k): Status.FAILED for s in range(2) for k in range(2)}))
    assert list(all_figures(content)) == []
