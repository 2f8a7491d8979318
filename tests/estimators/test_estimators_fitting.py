"""Which solver is taken, which iterate, and when a reference is asked."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from drobench.errors import DrobenchError
from drobench.estimators import DROClassifier
from drobench.estimators import fitting as room


@pytest.mark.parametrize(
    ("settings", "solver"),
    [
        ({}, "newton"),
        ({"radius": 0.1}, "newton"),
        ({"problem": "cvar"}, "exact_convex"),
        ({"problem": "cvar", "certify": False}, "newton"),
        ({"loss": "hinge", "l2": 1e-3}, "exact_convex"),
        ({"loss": "hinge", "certify": False}, "lbfgs"),
        ({"loss": "sigmoid"}, "newton"),
        ({"model": "mlp", "model_settings": {"hidden": [3]}}, "lbfgs"),
        ({"problem": "cvar", "solver": "lbfgs"}, "lbfgs"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_auto_takes_what_proves_itself(tumours, settings, solver):
    assert DROClassifier(**settings).fit(*tumours).solver_ == solver


def test_a_named_solver_keeps_its_solution_and_gets_the_bound_of_a_reference(tumours):
    with pytest.warns(ConvergenceWarning, match="scgd ended with passes .* at most .* above the optimum"):
        model = DROClassifier("cvar", solver="scgd", budget=5, random_state=0).fit(*tumours)
    exact = DROClassifier("cvar").fit(*tumours)
    assert model.certificate_.proved_by == "exact_convex"
    assert (exact.solver_, exact.reason_) == ("exact_convex", "the method has come to its end")
    assert model.gap_ == pytest.approx(model.objective_ - exact.objective_, abs=1e-7)
    assert model.gap_ > 1e-4
    assert not model.converged_


def test_the_reference_is_left_alone_where_there_are_many_rows(tumours, monkeypatch):
    monkeypatch.setattr(room, "LARGEST_AUTO", 100)
    with pytest.warns(ConvergenceWarning):
        assert DROClassifier("cvar").fit(*tumours).solver_ == "newton"
    assert DROClassifier("cvar", certify=True).fit(*tumours).gap_ < 1e-6


def test_a_reference_that_fails_damages_nothing(tumours, monkeypatch):
    from drobench_plugins.solvers.exact_convex import ExactConvex

    def fail(*_):
        raise RuntimeError("not today")

    monkeypatch.setattr(ExactConvex, "_solve", fail)
    with pytest.warns(ConvergenceWarning):
        model = DROClassifier("cvar").fit(*tumours)
    assert model.solver_ == "newton"
    assert "exact_convex: RuntimeError: not today" in model.certificate_.reason
    assert model.certificate_.lower_bound is not None


def test_the_same_seed_gives_the_same_model_and_another_one_another(table):
    settings = {"solver": "scgd", "budget": 5, "tol": 1e9, "certify": False}
    one, same, other = (DROClassifier(**settings, random_state=seed).fit(*table) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.parameters_, same.parameters_)
    assert one.curve_[-1]["objective"] == same.curve_[-1]["objective"]
    assert not np.array_equal(one.parameters_, other.parameters_)


def test_work_is_counted_and_limited(table):
    model = DROClassifier(solver="prox_gradient", budget={"passes": 6}, tol=1e9).fit(*table)
    assert 6.0 <= model.n_passes_ <= 8.0
    assert model.status_ == "budget_spent"
    assert model.reason_.startswith("passes")
    assert model.curve_[0]["objective"] == pytest.approx(np.log(2.0))
    assert len(model.curve_) >= 4


def test_a_target_ends_the_fit(table):
    model = DROClassifier(solver="newton", budget={"passes": 50, "target_stationarity": 1e-3}).fit(*table)
    assert (model.status_, model.converged_) == ("converged", True)
    assert model.curve_[-1]["stationarity"] <= 1e-3 < model.curve_[-2]["stationarity"]


def test_iterates_are_chosen_by_the_rows_that_were_kept_from_training(unequal):
    features, labels, _ = unequal(3, 300)
    settings = {"model": "mlp", "model_settings": {"hidden": [32]}, "random_state": 0, "tol": 1e9, "l2": 0.0}
    with pytest.warns(ConvergenceWarning):
        model = DROClassifier(validation_fraction=0.4, budget=60, **settings).fit(features, labels)
    errors = [row["validation_error"] for row in model.curve_]
    chosen = [row for row in model.curve_ if row["objective"] == model.objective_]
    assert chosen[0]["validation_error"] == min(errors)
    assert model.objective_ > model.curve_[-1]["objective"]


def test_a_solver_that_never_was_better_than_its_start_leaves_it_there(tumours):
    with pytest.warns(ConvergenceWarning, match="above the optimum"):
        model = DROClassifier(
            solver="unconstrained", solver_settings={"learning_rate": 1e4}, budget=3, random_state=0
        ).fit(*tumours)
    assert model.objective_ == model.curve_[0]["objective"]
    assert not model.parameters_.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "newtn"}, "Did you mean 'newton'"),
        ({"model": "liner"}, "Did you mean 'linear'"),
        ({"model": "cnn"}, "needs images"),
        ({"solver_settings": {"batch": 3}}, "Name the solver"),
        ({"solver": "gcivr", "solver_settings": {"bach": 3}}, "Did you mean 'batch'"),
        ({"model": "mlp", "model_settings": {"hiden": [3]}}, "Did you mean 'hidden'"),
        ({"reformulation_settings": {"gama": 3}}, "Did you mean 'gamma'"),
        ({"validation_fraction": 1.0}, "validation_fraction must be at least 0 and below 1"),
        ({"certify": "maybe"}, "certify must be True, False or 'auto'"),
        ({"problem": "noisy_group_fairness"}, "needs groups.*Pass fit"),
        ({"problem": "kl_regression"}, "needs targets"),
        ({"solver": "exact_constrained"}, "No way from"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_words(table, settings, message):
    with pytest.raises(DrobenchError, match=message):
        DROClassifier(**settings).fit(*table)
