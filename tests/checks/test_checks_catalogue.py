"""Everything that is installed passes its checks; a new plugin is covered without an edit."""

import functools

import polars as pl
import pytest

from drobench.checks import Checks, DatasetChecks
from drobench.checks.installed import KINDS, checks_of, start_together
from drobench.checks.known_solutions import known_problems
from drobench.checks.running import run_checks
from drobench.checks.trials import find_trials
from drobench.data.parquet import convert_parquet
from drobench.registry import load_catalogue

CATALOGUE = load_catalogue()
# What cannot be loaded without a file, or would take its time in full size.
SETTINGS = {
    ("dataset", "adult_twin"): {"rows": 1500},
    ("dataset", "mslr_twin"): {"queries": [20, 8, 8]},
    ("dataset", "synthetic"): {"rows": 500, "features": 4},
}
FILES = ("tabular", "mapped")
POSED_ON = {"noisy_group_fairness": "adult_twin", "ranking_fairness": "mslr_twin"}
# One of each kind that skips no check, so that none is skipped by every subject.
WITNESSES = {
    "solver": "scgd",
    "problem": "kl_classification",
    "dataset": "breast_cancer",
    "model": "mlp",
    "loss": "logistic",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A small Parquet file, and the same as a table to be mapped."""
    folder = tmp_path_factory.mktemp("table")
    rows = {"first": [0.5 * row for row in range(60)], "second": [row % 7 for row in range(60)]}
    pl.DataFrame({**rows, "label": [row % 2 for row in range(60)]}).write_parquet(folder / "rows.parquet")
    convert_parquet([str(folder / "rows.parquet")], folder / "mapped", label="label", dtype="float64")
    return {
        "tabular": {"path": str(folder / "rows.parquet"), "label": "label"},
        "mapped": {"path": str(folder / "mapped")},
    }


def unskippable(checks: type[Checks]) -> type[Checks]:
    """Turn every skip into a failure."""

    def insisting(check):
        @functools.wraps(check)
        def insist(*arguments, **fixtures):
            try:
                check(*arguments, **fixtures)
            except pytest.skip.Exception as skipped:
                pytest.fail(f"a check that even {checks.name!r} skips shows nothing about anybody: {skipped}")

        return insist

    for name in checks.checks():
        setattr(checks, f"test_{name}", insisting(getattr(checks, f"test_{name}")))
    return checks


def made(kind: str, name: str) -> type:
    checks = checks_of(kind, name, SETTINGS.get((kind, name), {}))
    if name in FILES:
        checks.settings = pytest.fixture(lambda _self, table: table[name])
    if name in POSED_ON:
        checks.dataset = POSED_ON[name]
        checks.dataset_settings = SETTINGS["dataset", POSED_ON[name]]
    return unskippable(checks) if name == WITNESSES[kind] else checks


for _kind in KINDS:
    for _name in CATALOGUE.of_kind(_kind):
        _checks = made(_kind, _name)
        globals()[_checks.__name__] = _checks


@pytest.fixture(scope="module")
def together():
    """One pair of processes for the checks of all solvers, and one process for the imports of all datasets."""
    start_together(CATALOGUE, CATALOGUE.solvers, CATALOGUE.datasets)


@pytest.fixture(autouse=True)
def _started(request):
    if request.node.get_closest_marker("process"):
        request.getfixturevalue("together")


@pytest.mark.parametrize("name", CATALOGUE.solvers)
def test_every_solver_is_held_against_a_known_solution(name):
    entry = CATALOGUE.solver(name).entry
    trials = find_trials(entry, entry.config())
    assert trials, f"no known problem is one for {name}: give drobench.checks.known_solutions one that is"
    assert entry.no_goal or any(trial.equivalent for trial in trials), f"only smoothed problems are ones for {name}"


def test_no_solver_skips_the_known_solution_without_saying_why():
    assert {name for name, found in CATALOGUE.solvers.items() if found.entry.no_goal} == {"gcivr_authors"}


def test_every_known_problem_is_a_trial_of_somebody():
    entries = [found.entry for found in CATALOGUE.solvers.values()]
    tried = {trial.name for entry in entries for trial in find_trials(entry, entry.config()) if trial.equivalent}
    assert tried == {problem.name for problem in known_problems()}


def test_a_witness_that_skips_a_check_fails():
    class Skipping(DatasetChecks):
        name = "breast_cancer"

        def test_nothing(self):
            pytest.skip("nothing to see")

    found = run_checks({"TestSkipping": unskippable(Skipping)}, "test_nothing")
    assert [(result.outcome, result.reason) for result in found] == [
        ("failed", "a check that even 'breast_cancer' skips shows nothing about anybody: nothing to see")
    ]
