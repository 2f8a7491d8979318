"""Sizes of epochs, against the formulas of the three schedules."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drobench.errors import SettingError
from drobench.solver.schedules import Epoch, ScheduleConfig, long_epoch, small_batch


def test_the_constant_schedule_by_default():
    assert ScheduleConfig().epoch(7, 10_000, 0) == Epoch(200, None, 50, 1)
    # The longer index set decides on the length, and each draws by its own size.
    assert ScheduleConfig().epoch(0, 100, 900) == Epoch(60, None, 5, 15)


def test_the_constant_schedule_as_set():
    settings = ScheduleConfig(epoch_length=7, batch=3, constraint_batch=4, refresh_batch=50)
    assert settings.epoch(2, 100, 80) == Epoch(7, 50, 3, 4)
    assert settings.epoch(2, 40, 30) == Epoch(7, None, 3, 4), "a refresh of at least all rows is one of all"
    assert ScheduleConfig(batch=3).epoch(0, 100, 80).constraint_batch == 3


def test_whole_samples_matter_under_constraints_only():
    settings = ScheduleConfig(whole_samples=True)
    assert settings.epoch(0, 100, 80).batch is None
    assert settings.epoch(0, 100, 0).batch == 5


def test_square_roots():
    assert ScheduleConfig(schedule="square_root").epoch(3, 90, 0) == Epoch(9, None, 9, 9)


def test_the_adaptive_schedule_grows_until_it_sees_everything():
    settings = ScheduleConfig(schedule="adaptive", growth=2.5, initial=5.0)
    # q = 7.5, 10, 12.5, ... and floors come after squaring.
    assert settings.epoch(0, 1000, 0) == Epoch(7, 56, 7, 7)
    assert settings.epoch(2, 1000, 0) == Epoch(12, 156, 12, 12)
    assert settings.epoch(50, 1000, 0) == Epoch(31, None, 31, 31)


@given(st.integers(1, 10**7))
def test_both_default_sizes_cost_as_much_as_roots_would(population):
    root = math.sqrt(population)
    assert small_batch(population) == max(1, int(root / 2))
    assert long_epoch(population) == max(1, int(2 * root))
    assert 1 <= small_batch(population) <= population
    assert small_batch(population) * long_epoch(population) <= population + 1


@pytest.mark.parametrize(
    "wrong", [{"schedule": "other"}, {"epoch_length": 0}, {"batch": -1}, {"refresh_batch": 0}, {"growth": -0.1}]
)
def test_impossible_sizes_are_refused(wrong):
    with pytest.raises(SettingError, match=rf"ScheduleConfig\.{next(iter(wrong))}"):
        ScheduleConfig(**wrong)
