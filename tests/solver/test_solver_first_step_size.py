"""The first step size: a setting, a rule, and what the form allows."""

import pytest
import torch

from drobench.errors import SettingError
from drobench.objective.oracles.composite import CompositeOracle
from drobench.solver.curvature import largest_curvature
from drobench.solver.first_step_size import StepConfig, StepRuleConfig, first_step, step_by_rule
from drobench.solver.smoothness import measure_smoothness


@pytest.fixture
def oracle(signed_rows, logistic):
    """Return a new oracle of the same instance, whose generator begins anew."""
    form = logistic(signed_rows(300, 4, 0), 0.5)

    def make(largest_step: float = float("inf")) -> CompositeOracle:
        form.largest_step = largest_step
        return CompositeOracle(form, 0, torch.zeros(4, dtype=torch.float64))

    return make


START = torch.zeros(4, dtype=torch.float64)


def test_a_setting_is_taken_as_it_is_and_asks_for_no_data(oracle, communicator):
    asked = oracle(largest_step=1e-3)
    assert first_step(StepConfig(step_size=0.3, step_scale=5.0), asked, communicator, START) == 0.3
    assert asked.counters.sample_calls == 0


def test_by_the_curvature(oracle, communicator):
    curvature = largest_curvature(oracle(), communicator, START)
    for config in (StepConfig(step_scale=0.5), StepRuleConfig(step_scale=0.5)):
        assert first_step(config, oracle(), communicator, START) == pytest.approx(0.5 / curvature, rel=1e-14)


def test_by_the_theorem(oracle, communicator):
    largest = measure_smoothness(oracle(), communicator, START).largest_step
    settings = StepRuleConfig(step_rule="theorem", step_scale=2.0)
    assert first_step(settings, oracle(), communicator, START) == 2.0 * largest


def test_the_form_limits_what_follows_from_the_data(oracle, communicator):
    assert first_step(StepConfig(), oracle(1e-3), communicator, START) == 1e-3
    assert step_by_rule(StepConfig(), oracle(1e-3), communicator, START) > 1e-3


@pytest.mark.parametrize("wrong", [{"step_size": 0.0}, {"step_scale": -1.0}, {"step_rule": "guess"}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(SettingError, match=rf"StepRuleConfig\.{next(iter(wrong))}"):
        StepRuleConfig(**wrong)
