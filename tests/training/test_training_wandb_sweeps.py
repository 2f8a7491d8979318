"""The sweeps for agents of Weights & Biases: every combination is a run, and their metric is in its summary."""

import itertools
import math

import pytest
import yaml

from drobench import run
from drobench.app.config import compose, data_dir, hydra_ready, register, resolve
from drobench.registry import load_catalogue
from drobench.training.wandb_log import summary_of


def sweep_files():
    return sorted((data_dir("sweeps") / "wandb").glob("*.yaml"))


def test_there_are_sweeps_for_wandb():
    assert len(sweep_files()) >= 2


@pytest.mark.parametrize("file", sweep_files(), ids=lambda file: file.stem)
def test_every_combination_of_a_wandb_sweep_composes(file, monkeypatch, tmp_path):
    """The words are put together as the agent does: each parameter as NAME=VALUE in place of the arguments."""
    sweep = yaml.safe_load(file.read_text())
    program, verb, *words = sweep["command"]
    assert (program, verb, words.pop(), sweep["program"]) == ("${program}", "run", "${args_no_hyphens}", "drobench")
    catalogue = load_catalogue()
    register(catalogue)
    parameters = {name: choice["values"] for name, choice in sweep["parameters"].items()}
    combinations = list(itertools.product(*parameters.values()))
    assert len(combinations) > 1
    with hydra_ready():
        for values in combinations:
            chosen = [f"{name}={value}" for name, value in zip(parameters, values, strict=True)]
            assert resolve(compose([*words, *chosen], catalogue)).logger.name == "wandb"


@pytest.mark.parametrize("file", sweep_files(), ids=lambda file: file.stem)
def test_the_metric_of_a_wandb_sweep_is_in_the_summary(file, tmp_path):
    sweep = yaml.safe_load(file.read_text())
    words = [word for word in sweep["command"][2:-1] if word != "logger=wandb"]
    small = ["budget.passes=null", "budget.seconds=null", "budget.target_gap=null", "budget.steps=2"]
    chosen = [f"{name}={choice['values'][0]}" for name, choice in sweep["parameters"].items()]
    record = run(*words, *small, *chosen, results=tmp_path / "results")
    assert math.isfinite(summary_of(record)[sweep["metric"]["name"]])
