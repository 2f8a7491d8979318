"""Limits, targets and the two ways of failing numerically."""

import math

import pytest

from drobench.errors import DrobenchError, SettingError
from drobench.results.record import Status
from drobench.training.budget import _DIVERGENCE, Budget, BudgetConfig, Usage

LIMITS = ("passes", "oracle_calls", "seconds", "steps")
TARGETS = ("target_gap", "target_stationarity")
NOTHING = Usage(steps=0, passes=0.0, oracle_calls=0, seconds=0.0)


def progress(**used):
    return Usage(**{**vars(NOTHING), **used})


@pytest.mark.parametrize("targets", [{}, {"target_gap": 1e-3}, {"target_stationarity": 1e-3}])
def test_a_budget_without_a_limit_is_refused_and_names_every_limit(targets):
    with pytest.raises(SettingError) as refusal:
        BudgetConfig(**targets)
    for name in LIMITS:
        assert f"budget.{name}" in str(refusal.value)
    assert isinstance(refusal.value, DrobenchError)


@pytest.mark.parametrize("name", [*LIMITS, *TARGETS])
def test_an_impossible_limit_or_target_is_refused_by_name(name):
    for value in [0, -1, -0.5, math.inf, math.nan]:
        others = {"steps": 1} if name != "steps" else {}
        with pytest.raises(SettingError, match=rf"{name}.*above 0.*found {value}"):
            BudgetConfig(**{**others, name: value})


@pytest.mark.parametrize(("name", "limit"), [("passes", 2.5), ("oracle_calls", 700), ("seconds", 0.5), ("steps", 9)])
def test_each_limit_ends_the_run_when_it_is_used_up_and_not_before(name, limit):
    budget = Budget(BudgetConfig(**{name: limit}))
    below = limit - 1 if isinstance(limit, int) else limit * (1 - 1e-12)
    assert budget.spent(progress(**{name: below})) is None
    for used in (limit, 2 * limit):
        verdict = budget.spent(progress(**{name: used}))
        assert verdict is not None
        assert verdict.status is Status.BUDGET_SPENT
        assert verdict.reason.startswith(name)
        assert f"of {limit}" in verdict.reason


@pytest.mark.parametrize("name", LIMITS)
def test_what_has_no_limit_never_ends_a_run(name):
    other = "steps" if name != "steps" else "passes"
    assert Budget(BudgetConfig(**{other: 10})).spent(progress(**{name: 10**12})) is None


@pytest.mark.parametrize("first", LIMITS)
def test_whichever_limit_comes_first_ends_the_run(first):
    budget = Budget(BudgetConfig(passes=10, oracle_calls=10, seconds=10, steps=10))
    used = {name: 10 if name == first else 9 for name in LIMITS}
    verdict = budget.spent(Usage(**used))
    assert verdict is not None
    assert verdict.reason.startswith(first)


@pytest.mark.parametrize(
    ("gap", "stationarity", "met"),
    [
        (1e-3, 1.0, "relative gap"),
        (0.99e-3, None, "relative gap"),
        (-1e-9, 1.0, "relative gap"),
        (1.01e-3, 1e-6, "stationarity"),
        (None, 0.0, "stationarity"),
        (1.01e-3, 1.01e-6, None),
        (None, None, None),
        (math.nan, math.nan, None),
    ],
)
def test_a_target_that_is_met_is_convergence(gap, stationarity, met):
    budget = Budget(BudgetConfig(steps=1, target_gap=1e-3, target_stationarity=1e-6))
    verdict = budget.reached(gap, stationarity)
    if met is None:
        assert verdict is None
    else:
        assert verdict is not None
        assert verdict.status is Status.CONVERGED
        assert verdict.reason.startswith(met)


def test_without_targets_nothing_converges():
    assert Budget(BudgetConfig(steps=1)).reached(0.0, 0.0) is None


@pytest.mark.parametrize("objective", [math.nan, math.inf, -math.inf])
def test_an_objective_that_is_no_number_is_non_finite(objective):
    verdict = Budget(BudgetConfig(steps=1)).lost(objective, 1.0)
    assert verdict is not None
    assert verdict.status is Status.NON_FINITE
    assert str(objective) in verdict.reason


@pytest.mark.parametrize("start", [0.5, 0.0, 20.0, -3.0, -50.0])
def test_an_objective_many_scales_above_the_start_has_diverged(start):
    """The scale is the size of the objective at the start, or one if that is smaller."""
    budget = Budget(BudgetConfig(steps=1))
    scale = max(1.0, abs(start))
    assert budget.lost(start + 0.999 * _DIVERGENCE * scale, start) is None
    assert budget.lost(-1e9, start) is None
    diverged = start + 1.001 * _DIVERGENCE * scale
    verdict = budget.lost(diverged, start)
    assert verdict is not None
    assert verdict.status is Status.DIVERGED
    assert f"{start:.6g}" in verdict.reason
    assert f"{diverged:.6g}" in verdict.reason


def test_a_step_that_is_large_but_harmless_is_no_divergence():
    assert 1e2 <= _DIVERGENCE <= 1e9
