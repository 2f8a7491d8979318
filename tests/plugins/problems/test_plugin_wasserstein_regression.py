"""Wasserstein regression as a problem: certified optima in all its cases, and methods that reach them."""

import numpy as np
import pytest

from drobench import run
from drobench.app.optimum import find_optimum
from drobench.data.build import build_dataset
from drobench.data.dataset import DatasetConfig
from drobench.errors import DrobenchError, SettingError
from drobench.objective.predictor import ModelConfig
from drobench.registry import load_catalogue

CATALOGUE = load_catalogue()
LOSSES = {"squared": {}, "huber": {"delta": 0.4}, "absolute": {}, "quantile": {"level": 0.8}}


@pytest.fixture(scope="module")
def dataset():
    generator = np.random.default_rng(0)
    features = generator.standard_normal((60, 3))
    targets = features @ [1.0, -0.5, 0.2] + 0.5 * generator.standard_t(3, 60) + 0.3
    config = DatasetConfig(split=[0.8, 0.0, 0.2], standardize=False)
    return build_dataset("sample", features, None, config, columns={"targets": targets})


def posed(dataset, model=None, **settings):
    entry = CATALOGUE.problem("wasserstein_regression").entry
    return entry.factory(entry.config(**settings), dataset, model or ModelConfig())


@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("target_cost", [None, 0.5])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_case_is_certified(loss, norm, target_cost, l2, dataset, tmp_path):
    problem = posed(
        dataset, loss=loss, loss_settings=LOSSES[loss], norm=norm, target_cost=target_cost, l2=l2, radius=0.05
    )
    assert problem.form.free == 1
    found = find_optimum(problem, {"case": f"{loss}{norm}{target_cost}{l2}"}, CATALOGUE, tmp_path)
    assert found.optimum is not None, found.reason
    assert -1e-9 <= found.optimum.certificate["gap"] <= 1e-6 * found.optimum.value


@pytest.mark.parametrize(("loss", "solver"), [("squared", "gcivr"), ("squared", "prox_gradient"), ("huber", "gcivr")])
def test_methods_come_near_the_optimum(loss, solver, tmp_path):
    record = run(
        "problem=wasserstein_regression",
        f"problem.loss={loss}",
        "dataset=diabetes",
        f"solver={solver}",
        "budget.passes=100",
        results=str(tmp_path),
    )
    assert record.optimum is not None, record.optimum_reason
    assert record.others["route"] == ["wasserstein_residuals"]
    assert -1e-9 <= record.iterates.last.gap <= 0.02 * record.optimum.value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"radius": 0.0}, "radius"),
        ({"target_cost": -1.0}, "target_cost"),
        ({"norm": "l3"}, "norm"),
        ({"l2": -1.0}, "l2"),
        ({"loss": "logistic"}, "losses of regression"),
        ({"loss_settings": {"delta": 1.0}}, "loss_settings"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        CATALOGUE.problem("wasserstein_regression").entry.config(**settings)


def test_only_linear_models_are_known(dataset):
    with pytest.raises(DrobenchError, match="needs model=linear; found model=mlp"):
        posed(dataset, ModelConfig("mlp", hidden=[3]))
