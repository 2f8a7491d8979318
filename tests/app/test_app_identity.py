"""The id of a run: changed by everything that can change the result, and by nothing else."""

import copy
import dataclasses
from dataclasses import dataclass, field

import pytest
from app_samples import catalogue_with, guest
from hydra.core.config_store import ConfigStore

from drobench.app.cell import run_cell
from drobench.app.config import plain
from drobench.app.identity import asked_of, identify, settings_beyond_defaults
from drobench.registry import load_catalogue

DETERMINING = ("dataset", "problem", "solver", "model", "reformulation", "budget", "evaluation")


def another(value):
    """Return a value that differs from the given one, of a type that a setting could have."""
    if value is None:
        return 0.5
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, dict):
        return {**value, "more": 1.0}
    return [*value, 1] if isinstance(value, list) else value + 1


def changed(config, group, name, value):
    other = copy.deepcopy(config)
    setattr(getattr(other, group) if group else other, name, value)
    return other


@pytest.mark.parametrize("group", DETERMINING)
def test_every_setting_that_shapes_the_result_changes_the_id(configure, catalogue, group):
    config = configure("model=mlp", "model.hidden=[3]")
    first = identify(config, catalogue, "data")
    names = [item.name for item in dataclasses.fields(getattr(config, group)) if item.name != "name"]
    assert names
    ids = {first}
    for name in names:
        value = getattr(getattr(config, group), name)
        ids.add(identify(changed(config, group, name, another(value)), catalogue, "data"))
    assert len(ids) == 1 + len(names)


@pytest.mark.parametrize("solver", list(load_catalogue().solvers))
def test_every_hyperparameter_of_every_solver_changes_the_id(configure, catalogue, solver):
    config = configure(f"solver={solver}")
    first = identify(config, catalogue, "data")
    for item in dataclasses.fields(config.solver):
        if item.name == "name":
            continue
        other = changed(config, "solver", item.name, another(getattr(config.solver, item.name)))
        assert identify(other, catalogue, "data") != first, item.name


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("", "results", "/another/place"),
        ("", "timeout", 3.0),
        ("", "trust", "any"),
        ("logger", "name", "csv"),
        ("trainer", "threads", 2),
        ("trainer", "checkpoint_seconds", 1.0),
        ("trainer", "checkpoint_steps", 10),
        # Hardware: the same numbers from another machine are the same run.
        ("trainer", "name", "gpu"),
    ],
)
def test_how_a_result_is_obtained_does_not_change_the_id(configure, catalogue, group, name, value):
    config = configure()
    assert getattr(getattr(config, group) if group else config, name) != value
    assert identify(changed(config, group, name, value), catalogue, "data") == identify(config, catalogue, "data")


def test_seed_precision_processes_and_data_change_the_id(configure, catalogue):
    config = configure()
    several = configure("trainer=ddp_cpu", "trainer.devices=2")
    ids = {
        identify(config, catalogue, "data"),
        identify(config, catalogue, "other data"),
        identify(changed(config, "", "seed", 1), catalogue, "data"),
        identify(changed(config, "trainer", "dtype", "float32"), catalogue, "data"),
        identify(several, catalogue, "data"),
        identify(changed(several, "trainer", "devices", 3), catalogue, "data"),
    }
    assert len(ids) == 6


def test_processes_count_over_all_nodes(configure, catalogue):
    two_devices = configure("trainer=ddp_cpu", "trainer.devices=2")
    two_nodes = configure("trainer=ddp_cpu", "trainer.devices=1", "trainer.nodes=2")
    assert identify(two_devices, catalogue, "data") == identify(two_nodes, catalogue, "data")


def test_the_version_of_a_plugin_is_no_part_of_the_question(configure):
    old, new = (catalogue_with(solvers=(guest("visitor"),), version=version) for version in ("1.0", "1.1"))
    theirs = configure("solver=visitor", using=old)
    assert identify(theirs, old, "data") == identify(theirs, new, "data")


@dataclass
class EarlierConfig:
    rate: float = 0.1
    layers: list[int] = field(default_factory=lambda: [3])


@dataclass
class LaterConfig(EarlierConfig):
    momentum: float = 0.0
    names: list[str] = field(default_factory=list)


def visiting(config, *changes):
    return catalogue_with(solvers=(guest("visitor", config=config, config_changes=changes),))


@pytest.mark.parametrize("words", [(), ("solver.rate=0.5",), ("solver.layers=[1,2]", "solver.rate=0.7")])
def test_a_new_setting_with_a_default_leaves_every_id_as_it_is(configure, words):
    ids = []
    for config in (EarlierConfig, LaterConfig):
        catalogue = visiting(config)
        ConfigStore.instance().repo.pop("solver", None)
        ids.append(identify(configure("solver=visitor", *words, using=catalogue), catalogue, "data"))
    assert ids[0] == ids[1]


def test_another_value_of_the_new_setting_is_another_run(configure):
    catalogue = visiting(LaterConfig)
    plainly = configure("solver=visitor", using=catalogue)
    assert identify(plainly, catalogue, "data") != identify(
        configure("solver=visitor", "solver.momentum=0.9", using=catalogue), catalogue, "data"
    )


def test_a_default_that_means_something_else_makes_another_run(configure):
    before, after = visiting(EarlierConfig), visiting(EarlierConfig, "rate: was the step, is the step over L")
    config = configure("solver=visitor", using=before)
    assert identify(config, before, "data") != identify(config, after, "data")


def test_defaults_of_nested_settings_do_not_enter():
    @dataclass
    class Inner:
        a: int = 1
        b: int = 2

    @dataclass
    class Outer:
        name: str = "x"
        inner: Inner = field(default_factory=lambda: Inner(b=5))

    assert settings_beyond_defaults(Outer()) == {"name": "x"}
    assert settings_beyond_defaults(Outer(inner=Inner(a=3, b=5))) == {"name": "x", "inner": {"a": 3, "b": 5}}
    assert settings_beyond_defaults(Outer(inner=Inner())) == {"name": "x", "inner": {}}


def test_choosing_other_plugins_changes_the_id(configure, catalogue):
    words = ([], ["solver=scgd"], ["solver=unconstrained"], ["model=mlp"])
    assert len({identify(configure(*chosen), catalogue, "data") for chosen in words}) == len(words)


def test_the_same_settings_written_differently_are_the_same_run(configure, catalogue):
    first = configure("problem.gamma=1", "seed=2", "dataset.split=[0.6,0.2,0.2]")
    second = configure("seed=2", "dataset.split=[0.60,0.20,0.20]", "problem.gamma=1.0")
    assert identify(first, catalogue, "data") == identify(second, catalogue, "data")


def test_the_determinants_are_complete_and_carry_no_path(configure, catalogue, results):
    found = asked_of(configure(), catalogue, "data")
    assert set(found) == {*DETERMINING, "seed", "dtype", "processes", "plugins", "config_version", "data_sha256"}
    assert str(results) not in repr(found)


def test_identifying_changes_nothing(configure, catalogue):
    config = configure()
    before = plain(config)
    identify(config, catalogue, "data")
    assert plain(config) == before


def test_a_recorded_run_has_the_id_of_its_configuration_and_data(configure, catalogue):
    config = configure()
    record = run_cell(config, catalogue)
    assert record.dataset.sha256 is not None
    assert record.run_id == identify(config, catalogue, record.dataset.sha256)
    other = run_cell(configure("dataset.seed=1"), catalogue)
    assert other.dataset.sha256 != record.dataset.sha256
    assert other.run_id != record.run_id
