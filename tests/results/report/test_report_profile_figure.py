"""The figure of performance profiles."""

from drobench.results.comparison.profiles import Profile, Profiles
from drobench.results.report.looks import PAPER
from drobench.results.report.profile_figure import profile, profile_rows
from drobench.results.report.styles import styles


def test_profile_rises_where_a_ratio_is_reached():
    row = Profile("alpha", 0.5, 0.4, 0.6, 0.75, None, (1.0, 2.0, 9.0, float("inf")))
    found = Profiles((row,), "passes", "alpha", ("one", "two"), 4, 0, ())
    (drawn,) = profile_rows(found)
    # By hand: one of four at 1, two of four from 2 on; 9 lies beyond the edge.
    assert drawn == {"solver": "alpha", "ratio": [1.0, 2.0, 4.0], "share": [0.25, 0.5, 0.5]}


def test_the_figure_has_steps_markers_and_the_cost_in_words():
    spec = profile(styles(["a", "b"]).values(), PAPER, "oracle calls")
    assert spec["encoding"]["x"]["title"] == "oracle calls, times the least of any solver"
    assert spec["encoding"]["x"]["scale"]["domain"] == [1, 4.0]
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line", "point"]
    assert spec["layer"][0]["mark"]["interpolate"] == "step-after"
