"""Settings of trainer and logger that cannot be, and machines that cannot do what is asked."""

import pytest

from drobench.errors import DrobenchError, SettingError
from drobench.training.settings import TrainerConfig, WandbConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "tpu"),
        ("dtype", "float16"),
        ("devices", 0),
        ("nodes", -1),
        ("threads", 0),
        ("checkpoint_seconds", 0.0),
        ("checkpoint_steps", 0),
    ],
)
def test_an_impossible_setting_of_the_trainer_is_refused_by_name(name, value):
    with pytest.raises(SettingError, match=rf"TrainerConfig\.{name} must be .*found {value!r}"):
        TrainerConfig(**{name: value})


def test_an_unknown_mode_of_wandb_is_refused_with_the_choices():
    with pytest.raises(SettingError, match=r"one of auto, online.*found 'paper'"):
        WandbConfig(mode="paper")


@pytest.mark.parametrize(("name", "advice"), [("cpu", "trainer=ddp_cpu"), ("gpu", r"trainer=ddp\.")])
@pytest.mark.parametrize("many", [{"devices": 2}, {"nodes": 2}])
def test_a_trainer_of_one_process_refuses_several_and_names_the_one_that_does(name, advice, many):
    with pytest.raises(DrobenchError, match=advice):
        TrainerConfig(name=name, **many)


@pytest.mark.parametrize(
    ("settings", "processes", "distributed", "uses_gpu"),
    [
        ({}, 1, False, False),
        ({"name": "gpu"}, 1, False, True),
        ({"name": "ddp_cpu"}, 1, False, False),
        ({"name": "ddp_cpu", "devices": 3}, 3, True, False),
        ({"name": "ddp", "devices": 2, "nodes": 4}, 8, True, True),
    ],
)
def test_processes_are_devices_times_nodes(settings, processes, distributed, uses_gpu):
    config = TrainerConfig(**settings)
    assert (config.processes, config.distributed, config.uses_gpu) == (processes, distributed, uses_gpu)
