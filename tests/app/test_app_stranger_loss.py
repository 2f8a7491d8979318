"""A loss of a stranger, from the command line to a certified gap: its name, settings, code and optimum."""

import re

import cvxpy as cp
import numpy as np
import pytest
import torch
from app_samples import SMALL, forget_module, write_package
from scipy.optimize import minimize

from drobench.app.api import run
from drobench.app.code import code_of
from drobench.app.freshness import why_stale
from drobench.app.identity import identify
from drobench.app.optimum import find_optimum
from drobench.registry import load_catalogue

# The targets are signs, and what an error costs depends on the sign: no loss of a margin.
PLUGIN = """
from dataclasses import dataclass
from drobench import LossEntry, hookimpl
from drobench.objective.score_losses import ScoreLoss, negative_entropy
import torch
from torch.nn.functional import softplus

@dataclass
class Config:
    cost: float = 1.0
    kind: str = "smooth"

class Costly(ScoreLoss):
    convex = True
    def __init__(self, config):
        self.cost = config.cost
    def costs(self, targets):
        return 1.0 + (self.cost - 1.0) * (targets > 0)
    def value_and_slope(self, scores, targets):
        costs = SCALE * self.costs(targets)
        return costs * softplus(-targets * scores), -costs * targets * torch.sigmoid(-targets * scores)
    def conjugate(self, slopes, targets):
        costs = SCALE * self.costs(targets)
        return costs * negative_entropy(-slopes * targets / costs) - SHIFT

@hookimpl
def drobench_losses():
    return [LossEntry(name="costly", summary="Costly.", config=Config, factory=Costly, task="classification")]
"""
WORDS = ("problem=kl_classification", "problem.loss=costly", "solver=newton", *SMALL)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs the plugin, edited or not, and returns the catalogue."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def installed(scale="1.0", shift="0.0"):
        text = PLUGIN.replace("SCALE", scale).replace("SHIFT", shift)
        if not (tmp_path / "site").exists():
            write_package(tmp_path / "site", "visiting_losses", text)
        (tmp_path / "site" / "visiting_losses.py").write_text(text)
        forget_module("visiting_losses")
        load_catalogue.cache_clear()
        return load_catalogue()

    yield installed
    forget_module("visiting_losses")
    load_catalogue.cache_clear()


def problem_of(config, catalogue):
    from drobench.objective.predictor import ModelConfig

    data = catalogue.dataset(config.dataset.name).entry.factory(config.dataset)
    return data, catalogue.problem(config.problem.name).entry.factory(config.problem, data, ModelConfig())


def by_scipy(data, cost, scale=1.0):
    """The optimum of the run's problem, from its definition."""
    rows = np.c_[data.train.features.numpy(), np.ones(data.train.rows)]
    signs = 2.0 * data.train.labels.numpy() - 1.0
    costs = scale * np.where(signs > 0, cost, 1.0)

    def value(point):
        losses = costs * np.logaddexp(0.0, -signs * (rows @ point))
        return np.log(np.mean(np.exp(losses))) + 0.05 * point @ point

    return minimize(value, np.zeros(rows.shape[1]), options={"gtol": 1e-9}).fun


def test_it_runs_to_a_certified_optimum_and_is_named_in_the_record(install, configure, results):
    catalogue = install()
    record = run(*WORDS, "problem.loss_settings={cost: 3}", "budget.steps=20", results=results)
    data, _ = problem_of(configure(*WORDS, using=catalogue), catalogue)
    assert record.optimum.value == pytest.approx(by_scipy(data, 3.0), rel=1e-6)
    assert record.iterates.last.gap <= 1e-8
    assert record.problem.config["loss_settings"] == {"cost": 3.0}
    assert set(record.code) == {"drobench", "stranger"}
    assert "loss" in record.code_parts
    assert record.asked["plugins"]["loss"] == ["stranger", 1]


def test_settings_make_the_id_and_those_at_their_defaults_do_not(install, configure):
    catalogue = install()

    def identified(*words):
        return identify(configure(*WORDS, *words, using=catalogue), catalogue, "data")

    plain = identified()
    assert identified("problem.loss_settings={cost: 1}") == plain
    assert identified("problem.loss_settings={kind: smooth}") == plain
    assert identified("problem.loss_settings={cost: 2}") == identified("problem.loss_settings={cost: 2.0}") != plain


def test_an_edit_makes_its_runs_stale_and_their_optimum_new(install, configure, results):
    catalogue = install()
    before = run(*WORDS, results=results)
    catalogue = install(scale="2.0")
    config = configure(*WORDS, using=catalogue)
    assert "the code of loss 'costly' has changed" in why_stale(before, code_of(config, catalogue))
    after = run(*WORDS, results=results)
    data, _ = problem_of(config, catalogue)
    assert before.optimum.value == pytest.approx(by_scipy(data, 1.0), rel=1e-6)
    # Not the one that was kept for the problem of the same words.
    assert after.optimum.value == pytest.approx(by_scipy(data, 1.0, scale=2.0), rel=1e-6)


def test_a_conjugate_that_is_too_low_certifies_nothing(install, configure, tmp_path):
    catalogue = install(shift="0.5")
    _, problem = problem_of(configure(*WORDS, using=catalogue), catalogue)
    found = find_optimum(problem, {"of": "a liar"}, catalogue, tmp_path / "optima")
    assert found.optimum is None
    assert re.search("the lower bound .* is above the value .*not as convex as it says", found.reason)


def test_it_is_refused_where_its_targets_are_no_signs(install, configure):
    from drobench.errors import SettingError

    catalogue = install()
    words = (*WORDS, "dataset=digits")
    base = tuple(word for word in words if not word.startswith(("dataset.rows", "dataset.features")))
    with pytest.raises(SettingError, match="Costly needs two classes; dataset 'digits' has 10"):
        problem_of(configure(using=catalogue, base=base), catalogue)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{cost: much}", "'cost' of the loss 'costly' must be a float; found 'much'"),
        ("{kind: 3}", "'kind' of the loss 'costly' must be a str; found 3"),
        ("{costs: 3}", r"found 'costs'\. Did you mean 'cost'\?"),
    ],
)
def test_settings_of_the_wrong_type_are_named(install, configure, settings, message):
    from drobench.errors import DrobenchError

    catalogue = install()
    with pytest.raises(DrobenchError, match=message):
        configure(*WORDS, f"problem.loss_settings={settings}", using=catalogue)


def test_a_loss_of_signs_has_closed_forms_in_a_linear_model(install, configure):
    from drobench.objective.losses import LinearTargetLosses

    catalogue = install()
    data, problem = problem_of(configure(*WORDS, using=catalogue), catalogue)
    losses = problem.form.losses
    assert isinstance(losses, LinearTargetLosses)
    assert losses.convex
    point = torch.linspace(-1.0, 1.0, losses.dimension, dtype=torch.float64)
    curve, step = torch.ones(data.train.rows, dtype=torch.float64), 1e-5
    found = losses.hessian(point, slice(None), torch.zeros_like(curve), curve)
    sides = [point + side * torch.eye(len(point), dtype=torch.float64) * step for side in (1.0, -1.0)]
    slopes = [losses.mean(points, slice(None))[1] * data.train.rows for points in sides]
    torch.testing.assert_close(found, (slopes[0] - slopes[1]) / (2.0 * step), rtol=1e-6, atol=1e-6)


def test_tails_of_a_loss_that_is_no_cone_are_certified_too(install, configure, tmp_path):
    catalogue = install()
    words = ("problem=cvar_classification", "problem.loss=costly", "problem.level=0.6", *SMALL)
    data, problem = problem_of(configure(*words, using=catalogue), catalogue)
    rows = np.c_[data.train.features.numpy(), np.ones(data.train.rows)]
    signs = 2.0 * data.train.labels.numpy() - 1.0
    point, excess = cp.Variable(rows.shape[1]), cp.Variable()
    tail = cp.sum(cp.pos(cp.logistic(-cp.multiply(signs, rows @ point)) - excess)) / (0.6 * len(rows))
    expected = cp.Problem(cp.Minimize(excess + tail + 0.05 * cp.sum_squares(point))).solve(solver=cp.CLARABEL)
    found = find_optimum(problem, {"of": "tails"}, catalogue, tmp_path / "optima")
    assert found.optimum is not None, found.reason
    assert found.optimum.value == pytest.approx(expected, rel=1e-6)


def test_weights_of_classes_are_those_of_the_signs(install, configure):
    catalogue = install()
    plain, weighted = (
        problem_of(configure(*WORDS, *words, using=catalogue), catalogue)[1].form.losses
        for words in ((), ("problem.class_weights=[2,5]",))
    )
    point = torch.linspace(-1.0, 1.0, plain.dimension, dtype=torch.float64)
    factors = torch.where(plain.targets > 0, 5.0, 2.0)
    torch.testing.assert_close(weighted.values(point), factors * plain.values(point))
