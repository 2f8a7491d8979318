"""Robust regression against cvxpy and scikit-learn: values, metrics, certified optima, and methods that reach them."""

import cvxpy as cp
import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from written_out import risk_by_cvxpy

from drobench import run
from drobench.data.build import build_dataset
from drobench.data.dataset import DatasetConfig
from drobench.errors import SettingError
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.certificates import lower_bound
from drobench.registry import load_catalogue

CATALOGUE = load_catalogue()
LOSSES = {"squared": {}, "huber": {"delta": 0.4}, "absolute": {}, "quantile": {"level": 0.8}}
PROBLEMS = {
    "kl": ("kl_regression", {"gamma": 0.5}),
    "kl_ball": ("kl_regression", {"variant": "ball", "radius": 0.2}),
    "chi2": ("chi2_regression", {"variant": "exact", "gamma": 0.7}),
    "chi2_ball": ("chi2_regression", {"variant": "ball", "radius": 0.4}),
    "cvar": ("cvar_regression", {"level": 0.3}),
}


@pytest.fixture(scope="module")
def dataset():
    generator = np.random.default_rng(0)
    features = generator.standard_normal((50, 3))
    targets = features @ [1.0, -0.5, 0.2] + generator.standard_t(3, 50)
    groups = (features[:, 0] > 0).astype(int)
    config = DatasetConfig(split=[0.8, 0.0, 0.2], standardize=False)
    return build_dataset("sample", features, None, config, columns={"targets": targets, "groups": groups})


def posed(name, dataset, **settings):
    entry = CATALOGUE.problem(name).entry
    return entry.factory(entry.config(**settings), dataset, ModelConfig())


def by_cvxpy(kind, settings, dataset, loss):
    """The optimum of the problem, with the adversary written as a maximum over weights in the dual of the program."""
    rows, targets = dataset.train.features.numpy(), dataset.train.targets.numpy()
    point, intercept, values = cp.Variable(3), cp.Variable(), cp.Variable(len(rows))
    risk, conditions = risk_by_cvxpy(kind, settings, values)
    conditions.append(loss.expression(rows @ point + intercept, targets) <= values)
    size = cp.sum_squares(point) + cp.square(intercept)
    program = cp.Problem(cp.Minimize(risk + 0.5 * 0.05 * size), conditions)
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-8, tol_gap_rel=1e-8)
    return program.value, torch.tensor([*point.value, float(intercept.value)], dtype=torch.float64)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_optimum_is_that_of_cvxpy_and_certified(kind, loss, dataset, tmp_path):
    from drobench.app.optimum import find_optimum

    name, settings = PROBLEMS[kind]
    problem = posed(name, dataset, **settings, loss=loss, loss_settings=LOSSES[loss], l2=0.05)
    expected, point = by_cvxpy(kind, settings, dataset, problem.loss)
    assert float(problem.form.value(point)) == pytest.approx(expected, rel=1e-6)
    assert problem.form.convex
    found = find_optimum(problem, {"kind": kind, "loss": loss}, CATALOGUE, tmp_path)
    assert found.optimum is not None, found.reason
    assert found.optimum.value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(5))
def test_the_bound_holds_at_any_point(loss, seed, dataset, tmp_path):
    problem = posed("kl_regression", dataset, gamma=0.5, loss=loss, loss_settings=LOSSES[loss], l2=0.05, l1=0.02)
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    # A bound from any point is below the value at any other.
    assert lower_bound(problem.form, points[0]) <= float(problem.form.value(points[1])) + 1e-12


def test_metrics_are_those_of_scikit_learn(dataset):
    problem = posed("cvar_regression", dataset)
    point = torch.tensor([0.8, -0.2, 0.1, 0.3], dtype=torch.float64)
    test = dataset.test
    predicted, targets = (test.features @ point[:3] + 0.3).numpy(), test.targets.numpy()
    score = problem.score(point, "test")
    assert score.error is None
    extra = score.extra
    assert extra["rmse"] == pytest.approx(mean_squared_error(targets, predicted) ** 0.5)
    assert extra["mae"] == pytest.approx(mean_absolute_error(targets, predicted))
    assert extra["r2"] == pytest.approx(r2_score(targets, predicted))
    residuals, groups = predicted - targets, test.groups.numpy()
    worst = max(np.sqrt(np.mean(residuals[groups == group] ** 2)) for group in (0, 1))
    assert extra["worst_group_rmse"] == pytest.approx(worst)
    for share in (90, 95, 99):
        assert extra[f"p{share}_residual"] == pytest.approx(np.percentile(np.abs(residuals), share))
    assert extra["largest_loss"] == pytest.approx((residuals**2).max())
    assert problem.score(point, "validation") is None


def test_without_an_adversary_it_is_ridge_regression(tmp_path):
    words = (
        "problem=chi2_regression",
        "problem.gamma=1e9",
        "problem.l2=0.01",
        "dataset=diabetes",
        "dataset.split=[1,0,0]",
    )
    record = run(*words, "solver=newton", "budget.passes=30", "model.intercept=false", results=str(tmp_path))
    raw = load_diabetes(scaled=False)
    rows = (raw.data - raw.data.mean(0)) / raw.data.std(0)
    # Its objective is the sum of squares plus alpha |w|^2; ours the mean plus l2/2 |w|^2.
    ridge = Ridge(alpha=0.005 * len(rows), fit_intercept=False).fit(rows, raw.target / 100)
    residuals = rows @ ridge.coef_ - raw.target / 100
    expected = np.mean(residuals**2) + 0.005 * np.sum(ridge.coef_**2)
    assert record.iterates.last.objective == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "preconditioned_gcivr"])
@pytest.mark.parametrize("problem", ["kl_regression", "chi2_regression"])
def test_solvers_reach_the_certified_optimum(solver, problem, tmp_path):
    words = (f"solver={solver}", f"problem={problem}", "dataset=diabetes", "budget.passes=80", "problem.gamma=2")
    record = run(*words, results=str(tmp_path))
    assert record.optimum is not None
    assert record.iterates.last.gap <= 1e-6


@pytest.mark.convergence
def test_gcivr_reaches_the_certified_optimum(tmp_path):
    words = ("solver=gcivr", "problem=kl_regression", "dataset=diabetes", "budget.passes=400", "problem.l2=0.1")
    record = run(*words, results=str(tmp_path))
    assert record.iterates.last.gap <= 1e-4 * record.optimum.value


def test_a_loss_of_the_other_task_is_refused():
    with pytest.raises(SettingError, match="losses of regression; found 'logistic'"):
        CATALOGUE.problem("kl_regression").entry.config(loss="logistic")


def test_a_problem_of_numbers_needs_targets(tmp_path):
    from drobench.registry import NeedsNotMet

    with pytest.raises(NeedsNotMet, match=r"needs targets, but dataset 'digits' does not provide targets.*diabetes"):
        run("problem=kl_regression", "dataset=digits", results=str(tmp_path))


def test_newton_reaches_it_with_a_loss_that_bends_in_pieces(tmp_path):
    words = ("solver=newton", "problem=kl_regression", "problem.loss=huber", "problem.loss_settings.delta=0.4")
    record = run(*words, "dataset=diabetes", "problem.l2=0.01", "budget.passes=60", results=str(tmp_path))
    assert record.problem.config["loss_settings"] == {"delta": 0.4}
    assert record.iterates.last.gap <= 1e-8
