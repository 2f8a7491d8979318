"""A stranger's package: installed from its wheel, found by its entry point, used like ours."""

import json
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "plugins" / "example_third_party"

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not PACKAGE.is_dir(), reason="needs the source tree"),
]


@pytest.fixture(scope="module")
def environment(install_packages):
    return install_packages(PACKAGE)


# A test suite within a test, on a machine that may be busy.
@pytest.mark.timeout(900)
def test_its_own_tests_pass(environment):
    words = ("-q", "-rs", "-W", "error", "-p", "no:cacheprovider", "--rootdir", PACKAGE)
    summary = environment.call("-m", "pytest", *words, PACKAGE / "tests").splitlines()[-1]
    assert re.search(r"\b[4-9]\d passed", summary), summary
    assert "failed" not in summary


def test_its_solver_and_problem_are_listed_with_package_version_and_api(environment):
    lines = [line.split() for line in environment.drobench("plugins").splitlines()]
    for name in ("frank_wolfe", "ball_reference", "ball_classification"):
        (line,) = [line for line in lines if line[:1] == [name]]
        assert line[-2:] == ["norm-ball-learning", "0.3.0"]
    assert ["norm_ball_learning", "norm-ball-learning", "0.3.0", "1", "3"] in lines


def test_its_solver_runs_on_its_problem_with_a_certified_gap_beside_one_of_ours(environment):
    words = ("run", "-m", "problem=ball_classification", "problem.l2=0.01", "solver=frank_wolfe,gcivr")
    environment.drobench(*words, "budget.passes=100")
    records = [json.loads(file.read_text()) for file in environment.folder.glob("results/*/record.json")]
    found = {record["solver"]["name"]: record for record in records}
    assert set(found) == {"frank_wolfe", "gcivr"}
    assert found["frank_wolfe"]["solver"]["distribution"] == "norm-ball-learning"
    for record in found.values():
        assert record["status"] == "budget_spent"
        assert record["problem"]["version"] == "0.3.0"
        assert record["optimum"]["method"] == "ball_reference"
        # Both come near the optimum, and neither below it.
        assert -1e-9 < record["iterates"]["last"]["gap"] < 0.01 * record["optimum"]["value"]
    shown = environment.drobench("leaderboard")
    assert "ball_classification on breast_cancer" in shown
    assert "frank_wolfe" in shown
