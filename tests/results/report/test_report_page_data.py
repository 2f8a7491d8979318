"""What the script of the page works with."""

import json

import pytest
from report_samples import make_runs

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.record import Status
from drobench.results.report.content import gather
from drobench.results.report.page_data import payload


def content_of(samples):
    records, curves = samples
    return gather(leaderboard(records, curves.__getitem__), records, curves.__getitem__)


def test_data_of_the_script_are_the_curves_and_all_runs():
    data = json.loads(payload(content_of(make_runs(3, 3, 2))))
    assert len(data["boards"]) == 2
    assert len(data["runs"]) == 18
    first = data["boards"][1]["curves"]["passes"]["relative_gap"][0]
    assert first["solver"] == "solver_0"
    assert first["median"][0] == 1.0
    run = data["runs"][0]
    assert data["parts"][run["parts"]["solver"]]["name"].startswith("solver_")
    assert data["parts"][run["parts"]["environment"]]["hardware"] == "one machine"
    assert len(data["parts"]) < 18, "what runs share is kept once"


def test_one_board_has_no_profiles_and_two_have():
    assert json.loads(payload(content_of(make_runs(2, 2))))["profiles"] is None
    found = json.loads(payload(content_of(make_runs(2, 2, 2, points=200))))["profiles"]
    assert set(found) == {"solvers", "colours", "profile", "rows"}
    assert {row["solver"] for row in found["rows"]} == set(found["solvers"])


def test_it_is_strict_json_whatever_failed():
    samples = make_runs(2, 2, failing={(0, 0): Status.DIVERGED, (1, 1): Status.NON_FINITE})
    data = json.loads(payload(content_of(samples)), parse_constant=pytest.fail)
    assert [run["status"] for run in data["runs"]].count("diverged") == 1
