"""The convolutional network: its layers, what it refuses, and a run whose solution predicts."""

import numpy as np
import pytest
import torch

from drobench import load_solution, run
from drobench.errors import SettingError
from drobench.registry import NeedsNotMet
from drobench_plugins.models.cnn import CnnConfig, cnn


def test_every_entry_halves_the_image():
    module = cnn(CnnConfig(channels=[4, 8]), (3, 12, 9), 5)
    assert module[-1].in_features == 8 * 3 * 2
    assert module(torch.zeros(2, 3, 12, 9)).shape == (2, 5)
    assert not any(isinstance(layer, torch.nn.GroupNorm) for layer in cnn(CnnConfig(groups=0), (1, 8, 8), 2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": []}, "CnnConfig.channels must list at least one positive width"),
        ({"kernel": 4}, "CnnConfig.kernel must be odd; found 4"),
        ({"channels": [6], "groups": 4}, r"CnnConfig.groups must divide all channels, \[6\], or be 0; found 4"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        CnnConfig(**settings)


def test_an_image_that_is_too_small_is_refused():
    with pytest.raises(SettingError, match="images of 8 by 8 can be halved 3 times"):
        cnn(CnnConfig(channels=[4, 4, 4, 4]), (1, 8, 8), 2)


def test_a_run_learns_and_its_solution_predicts(tmp_path):
    words = ("dataset=digits", "model=cnn", "model.channels=[8]", "solver=unconstrained", "budget.passes=8")
    record = run(*words, results=str(tmp_path))
    start, last = record.iterates.best_feasible, record.iterates.last
    assert last.test_error < 0.25
    assert record.model == {"name": "cnn", "channels": [8], "kernel": 3, "groups": 4}
    assert start is not None
    from sklearn.datasets import load_digits

    raw = load_digits()
    solution = load_solution(record.run_id, results=tmp_path)
    assert solution.shape == (1, 8, 8)
    assert np.mean(solution.predict(raw.data) != raw.target) < 0.25


def test_rows_without_a_shape_are_refused_before_the_run(tmp_path):
    with pytest.raises(NeedsNotMet, match="Model 'cnn' needs images, but dataset 'breast_cancer' does not"):
        run("dataset=breast_cancer", "model=cnn", results=str(tmp_path))
