"""Losses by name: those of a task, with their settings."""

from dataclasses import replace

import pytest

from drobench.errors import SettingError
from drobench.registry import EntryError, LossEntry, build_catalogue, load_catalogue
from drobench.registry.losses import loss_called, loss_settings

CATALOGUE = load_catalogue()


def test_a_loss_gets_its_settings():
    assert loss_called("huber", {"delta": 0.25}, "regression", CATALOGUE).delta == 0.25
    assert loss_called("quantile", {}, "regression", CATALOGUE).level == 0.5
    assert loss_called("smoothed_hinge", {"width": 2.0}, "classification", CATALOGUE).width == 2.0


@pytest.mark.parametrize(
    ("name", "settings", "task", "message"),
    [
        ("hubber", {}, "regression", r"found 'hubber'\. Did you mean 'huber'\?"),
        ("logistic", {}, "regression", "must be one of absolute, huber, quantile, squared, the losses of regression"),
        ("squared", {}, "classification", "hinge, logistic, sigmoid, smoothed_hinge, softmax, the losses of class"),
        ("huber", {"dleta": 1.0}, "regression", r"'huber', which has delta; found 'dleta'\. Did you mean 'delta'\?"),
        ("squared", {"delta": 1.0}, "regression", "which has none; found 'delta'"),
        ("quantile", {"level": 1.0}, "regression", "QuantileConfig.level must be between 0 and 1; found 1.0"),
        ("huber", {"delta": 0.0}, "regression", "HuberConfig.delta must be a finite number above 0"),
    ],
)
def test_what_is_no_loss_of_the_task_is_named(name, settings, task, message):
    with pytest.raises(SettingError, match=message):
        loss_called(name, settings, task, CATALOGUE)


def test_an_entry_says_what_its_targets_are():
    entry = CATALOGUE.loss("huber").entry
    with pytest.raises(EntryError, match="LossEntry 'mine': `task` must be one of classification, regression"):
        LossEntry(name="mine", summary="Mine.", config=entry.config, factory=entry.factory, task="ranking")


def test_settings_keep_what_differs_from_the_defaults_in_its_own_type():
    assert loss_settings("huber", {"delta": 2}, "regression", CATALOGUE) == {"delta": 2.0}
    assert isinstance(loss_settings("huber", {"delta": 2}, "regression", CATALOGUE)["delta"], float)
    assert loss_settings("huber", {"delta": 1}, "regression", CATALOGUE) == {}


@pytest.mark.parametrize("value", ["wide", True, [1.0], None])
def test_a_setting_of_another_type_is_named(value):
    with pytest.raises(SettingError, match=r"'delta' of the loss 'huber' must be a float; found "):
        loss_called("huber", {"delta": value}, "regression", CATALOGUE)


def test_two_losses_of_one_name_are_reported_and_the_first_is_kept(plugin, source):
    first = CATALOGUE.loss("huber").entry
    second = replace(first, summary="Another.")
    catalogue = build_catalogue([source(plugin(drobench_losses=[first, second]))])
    assert catalogue.losses["huber"].entry is first
    (trouble,) = catalogue.troubles
    assert "huber" in str(trouble)
