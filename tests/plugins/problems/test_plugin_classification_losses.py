"""Robust classification by every loss under every adversary: values, certified optima, and methods that reach them."""

import cvxpy as cp
import numpy as np
import pytest
import torch
from written_out import risk_by_cvxpy

from drobench.app.optimum import find_optimum
from drobench.data.build import build_dataset
from drobench.data.dataset import DatasetConfig
from drobench.errors import SettingError
from drobench.objective.oracles.build import build_oracle
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import load_catalogue
from drobench.solver import SingleProcess

CATALOGUE = load_catalogue()
L1, L2 = 0.01, 0.05
LOSSES = {"logistic": {}, "hinge": {}, "smoothed_hinge": {"width": 0.3}, "softmax": {}}
PROBLEMS = {
    "kl": ("kl_classification", {"gamma": 0.5}),
    "kl_ball": ("kl_classification", {"variant": "ball", "radius": 0.05}),
    "chi2": ("chi2_classification", {"variant": "exact", "gamma": 0.7}),
    "chi2_ball": ("chi2_classification", {"variant": "ball", "radius": 0.1}),
    "cvar": ("cvar_classification", {"level": 0.6}),
}


def dataset(classes):
    generator = np.random.default_rng(classes)
    features = generator.standard_normal((40, 3))
    scores = features @ generator.standard_normal((3, classes)) + 0.5 * generator.standard_normal((40, classes))
    config = DatasetConfig(split=[1.0, 0.0, 0.0], standardize=False)
    return build_dataset("sample", features, scores.argmax(axis=1), config)


DATA = {2: dataset(2), 3: dataset(3)}


def posed(kind, loss, l1=L1, model=None):
    name, settings = PROBLEMS[kind]
    entry = CATALOGUE.problem(name).entry
    data = DATA[3 if loss == "softmax" else 2]
    config = entry.config(**settings, loss=loss, loss_settings=LOSSES[loss], l1=l1, l2=L2)
    return entry.factory(config, data, model or ModelConfig())


def losses_by_cvxpy(loss, point):
    """Write the losses out, from their definition."""
    data = DATA[3 if loss == "softmax" else 2].train
    rows, labels = np.c_[data.features.numpy(), np.ones(data.rows)], data.labels.numpy()
    if loss == "softmax":
        scores = rows @ cp.reshape(point, (3, 4), order="C").T
        return cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(np.eye(3)[labels], scores), axis=1)
    margins = cp.multiply(2.0 * labels - 1.0, rows @ point)
    width = LOSSES["smoothed_hinge"]["width"]
    return {
        "logistic": lambda: cp.logistic(-margins),
        "hinge": lambda: cp.pos(1.0 - margins),
        "smoothed_hinge": lambda: width * cp.logistic((1.0 - margins) / width),
    }[loss]()


def by_cvxpy(kind, loss):
    """The optimum, with the adversary's answer written out."""
    point, values = cp.Variable(12 if loss == "softmax" else 4), cp.Variable(40)
    risk, conditions = risk_by_cvxpy(kind, PROBLEMS[kind][1], values)
    conditions.append(losses_by_cvxpy(loss, point) <= values)
    program = cp.Problem(cp.Minimize(risk + L1 * cp.norm1(point) + 0.5 * L2 * cp.sum_squares(point)), conditions)
    return program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-8, tol_gap_rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_optimum_is_that_of_cvxpy_and_certified(kind, loss, tmp_path):
    problem = posed(kind, loss)
    assert problem.form.convex
    found = find_optimum(problem, {"kind": kind, "loss": loss}, CATALOGUE, tmp_path)
    assert found.optimum is not None, found.reason
    assert found.optimum.value == pytest.approx(by_cvxpy(kind, loss), rel=1e-6)


@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "hinge"])
@pytest.mark.parametrize("kind", ["kl", "chi2"])
def test_newton_reaches_it_by_second_derivatives(kind, loss, tmp_path):
    problem = posed(kind, loss, l1=0.0)
    optimum = find_optimum(problem, {"kind": kind, "loss": loss, "l1": 0}, CATALOGUE, tmp_path).optimum.value
    entry = CATALOGUE.solver("newton").entry
    route = find_route(problem.form, entry.accepts, ReformulationConfig())
    start = route.lift(problem.start(torch.Generator()))
    solver, oracle, alone = entry.factory(entry.config()), build_oracle(route.form, 0, start), SingleProcess()
    with torch.no_grad():
        state = solver.init(start, oracle, alone)
        for _ in range(15):
            state = solver.step(state, oracle, alone)
    point = route.recover(solver.solution(state))
    assert float(problem.form.value(point)) - optimum <= 1e-9 * abs(optimum)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_bounded_loss_is_not_called_convex_and_gets_no_certificate(kind, tmp_path):
    name, settings = PROBLEMS[kind]
    entry = CATALOGUE.problem(name).entry
    problem = entry.factory(entry.config(**settings, loss="sigmoid", l2=L2), DATA[2], ModelConfig())
    assert not problem.form.convex
    assert find_optimum(problem, {"kind": kind}, CATALOGUE, tmp_path).reason == "the problem is not convex"


@pytest.mark.parametrize("loss", LOSSES)
def test_a_convex_loss_of_a_network_is_not_called_convex(loss):
    assert not posed("kl", loss, model=ModelConfig("mlp", hidden=[3])).form.convex


@pytest.mark.parametrize(("loss", "classes", "wanted"), [("hinge", 3, "two"), ("softmax", 2, "more than two")])
def test_a_loss_for_another_number_of_classes_is_refused(loss, classes, wanted):
    entry = CATALOGUE.problem("kl_classification").entry
    with pytest.raises(SettingError, match=f"needs {wanted} classes; dataset 'sample' has {classes}"):
        entry.factory(entry.config(loss=loss), DATA[classes], ModelConfig())
