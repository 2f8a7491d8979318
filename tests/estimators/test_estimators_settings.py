"""Names, strengths and budgets: what is understood, and what is refused in words that help."""

import pytest

from drobench.app.shipped_files import data_dir
from drobench.errors import SettingError
from drobench.estimators.settings import budget_of, find_problem, problem_settings, settings_of, solver_for
from drobench.registry import load_catalogue
from drobench.training.budget import BudgetConfig


@pytest.fixture
def entry():
    return lambda name: load_catalogue().problem(name).entry


@pytest.mark.parametrize(
    ("name", "endings", "found"),
    [
        ("kl", ("classification",), "kl_classification"),
        ("kl", ("regression",), "kl_regression"),
        ("wasserstein", ("classification", "logistic"), "wasserstein_logistic"),
        ("intersectional", ("fairness",), "intersectional_fairness"),
        ("cvar_classification", ("regression",), "cvar_classification"),
    ],
)
def test_a_problem_is_found_by_its_short_and_its_full_name(name, endings, found):
    assert find_problem(name, endings, load_catalogue()).name == found


def test_an_unknown_problem_is_refused_with_the_nearest_name():
    with pytest.raises(SettingError, match=r"one of .*cvar.*kl.*found 'cvr'.*Did you mean 'cvar'"):
        find_problem("cvr", ("classification",), load_catalogue())


def test_strengths_that_are_none_are_left_to_the_problem(entry):
    found = problem_settings(entry("kl_classification"), {"gamma": None, "l2": 0.5}, None)
    assert (found.gamma, found.l2, found.variant) == (1.0, 0.5, "penalty")


@pytest.mark.parametrize(
    ("given", "further", "variant"),
    [({"radius": 0.2}, None, "ball"), ({"radius": 0.2}, {"variant": "ball"}, "ball"), ({}, {}, "penalty")],
)
def test_a_radius_asks_for_a_ball(entry, given, further, variant):
    assert problem_settings(entry("kl_classification"), given, further).variant == variant


@pytest.mark.parametrize(
    ("name", "given", "further", "variant"),
    [
        ("cressie_read_classification", {}, None, "ball"),
        ("cressie_read_classification", {"gamma": 2.0}, None, "penalty"),
        ("group_classification", {"gamma": 2.0}, None, "penalty"),
        ("chi2_classification", {"gamma": 2.0}, None, "variance"),
        ("cvar_classification", {"gamma": 2.0}, {"variant": "kl"}, "kl"),
    ],
)
def test_a_gamma_asks_for_a_price(entry, name, given, further, variant):
    assert problem_settings(entry(name), given, further).variant == variant


@pytest.mark.parametrize(
    ("name", "given", "further", "message"),
    [
        ("kl_classification", {"radius": 0.2, "gamma": 1.0}, None, "a price .gamma. or a ball .radius.; found both"),
        ("wasserstein_logistic", {"gamma": 1.0, "radius": None}, None, "gamma is no setting of .*it has radius"),
        ("cvar_classification", {"gamma": 1.0}, None, "gamma means nothing to the variant 'exact'"),
        ("cvar_classification", {"gamma": 1.0}, {"variant": "entropic"}, "gamma means nothing to the variant"),
        ("kl_classification", {"radius": 0.0}, {"variant": "penalty"}, "radius means nothing to the variant 'penalty'"),
        ("kl_classification", {"gamma": 1.0}, {"gamma": 2.0}, "gamma is given twice"),
        ("kl_classification", {}, {"gama": 2.0}, "found 'gama'. Did you mean 'gamma'"),
        ("kl_classification", {}, "gamma=2", "must be a dictionary"),
        ("kl_classification", {"gamma": -1.0}, None, "gamma must be a finite number above 0"),
        ("kl_classification", {"loss": "hing"}, None, "Did you mean 'hinge'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(entry, name, given, further, message):
    with pytest.raises(SettingError, match=message):
        problem_settings(entry(name), given, further)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (None, BudgetConfig(passes=200.0)),
        (7, BudgetConfig(passes=7.0)),
        ({"steps": 5, "target_gap": 0.1}, BudgetConfig(steps=5, target_gap=0.1)),
        ("paper", BudgetConfig(passes=200, target_gap=1e-8)),
    ],
)
def test_a_budget_is_a_number_of_passes_or_limits_or_a_name(budget, expected):
    assert budget_of(budget) == expected


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ("papr", "one of the presets .*found 'papr'. Did you mean 'paper'"),
        ({"pases": 3}, "found 'pases'. Did you mean 'passes'"),
        (-1, "passes must be a finite number above 0"),
        ({}, "sets no limit"),
        ([3], "must be a number of passes"),
        (True, "must be a number of passes"),
    ],
)
def test_an_impossible_budget_is_refused(budget, message):
    with pytest.raises(SettingError, match=message):
        budget_of(budget)


def test_settings_are_a_dictionary():
    with pytest.raises(SettingError, match="solver_settings must be a dictionary"):
        settings_of(BudgetConfig, [("steps", 3)], "solver_settings")


def test_every_kind_of_problem_has_a_solver_that_is_installed():
    lines = (data_dir("conf") / "estimators.yaml").read_text().splitlines()
    kinds = [line.partition(":")[0] for line in lines if line and not line.startswith("#")]
    assert sorted(kinds) == ["kinked", "linear", "network"]
    for kind in kinds:
        assert solver_for(kind) in load_catalogue().solvers
