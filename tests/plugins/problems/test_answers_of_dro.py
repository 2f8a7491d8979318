"""Our certified optima beside those that the package `dro` 0.4.3 found, written down by `benchmarks/peers`."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from drobench.app.optimum import find_optimum
from drobench.data.build import build_dataset
from drobench.data.dataset import DatasetConfig
from drobench.objective.predictor import ModelConfig
from drobench.registry import load_catalogue

CATALOGUE = load_catalogue()
STORED = json.loads(Path(__file__).with_name("answers_of_dro.json").read_text())
ANSWERS = {f"{one['problem']}-{one['loss']}-{json.dumps(one['there'])}": one for one in STORED["answers"]}


@pytest.fixture(scope="module")
def datasets():
    features = np.array(STORED["features"])
    config = DatasetConfig(split=[1.0, 0.0, 0.0], standardize=False)
    labels = (np.array(STORED["labels"]) > 0).astype(int)
    return {
        "labels": build_dataset("labels", features, labels, config),
        "targets": build_dataset("targets", features, None, config, columns={"targets": np.array(STORED["targets"])}),
    }


@pytest.mark.parametrize("name", ANSWERS)
def test_the_optimum_is_theirs(name, datasets, tmp_path):
    stored = ANSWERS[name]
    entry = CATALOGUE.problem(stored["problem"]).entry
    settings = dict(stored["here"])
    if stored["problem"] != "wasserstein_logistic":
        settings["loss"] = stored["loss"]
    # They have no quadratic part, without which balls and tails are not certified.
    least = 0.0 if stored["problem"].startswith("wasserstein") else 1e-5
    dataset = datasets["targets" if "regression" in stored["problem"] else "labels"]
    problem = entry.factory(entry.config(**settings, l2=least), dataset, ModelConfig())
    # What they found is worth to us what it is worth to them, and nothing is better.
    point = torch.tensor(stored["point"], dtype=torch.float64)
    worth = float(problem.form.value(point))
    assert worth - 0.5 * least * float(point.square().sum()) == pytest.approx(stored["value"], rel=1e-6)
    found = find_optimum(problem, {"answer": name}, CATALOGUE, tmp_path)
    assert found.optimum is not None, found.reason
    assert stored["value"] * (1.0 - 1e-6) <= found.optimum.value <= worth + 1e-9


def test_every_family_is_compared():
    compared = {one["problem"] for one in STORED["answers"]}
    assert {"chi2_regression", "kl_classification", "cvar_regression", "total_variation_classification"} <= compared
    assert {"wasserstein_regression", "wasserstein_logistic"} <= compared
    assert {one["loss"] for one in STORED["answers"]} == {"hinge", "logistic", "squared", "absolute"}
