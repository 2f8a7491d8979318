"""Composition: every choice composes, every mistake is refused with a message one can act on."""

import dataclasses
import os
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from app_samples import SMALL, catalogue_with, forget_module, guest, write_package

from drobench.app.config import (
    CHOSEN_GROUPS,
    ConfigError,
    compose,
    data_dir,
    from_yaml,
    hydra_ready,
    plain,
    register,
    resolve,
    to_yaml,
)
from drobench.app.identity import identify
from drobench.errors import DrobenchError, SettingError
from drobench.registry import UnknownName, load_catalogue

GROUPS = ("budget", "trainer", "experiment", "debug")


def files_of(group):
    return [(group, file.stem) for file in sorted((data_dir("conf") / group).glob("*.yaml"))]


def plugin_choices():
    found = load_catalogue()
    groups = {group: getattr(found, f"{group}s") for group in CHOSEN_GROUPS}
    return [(group, name) for group, entries in groups.items() for name in entries]


@pytest.mark.parametrize(("group", "name"), [choice for group in GROUPS for choice in files_of(group)])
def test_every_file_of_a_group_composes(configure, group, name):
    config = configure(f"{group}={name}", base=())
    if group in ("model", "trainer"):
        assert getattr(config, group).name == name


@pytest.mark.parametrize("name", load_catalogue().solvers)
def test_every_solver_is_built_from_the_configuration_of_a_run(configure, catalogue, name):
    # Which has the solver's name in it, unlike the plain settings.
    assert catalogue.solver(name).entry.factory(configure(f"solver={name}", base=()).solver) is not None


@pytest.mark.parametrize(("group", "name"), plugin_choices())
def test_every_plugin_composes(configure, group, name):
    chosen = getattr(configure(f"{group}={name}", base=()), group)
    assert chosen.name == name
    expected = getattr(load_catalogue(), group)(name).entry.config
    assert isinstance(chosen, expected)


def test_the_groups_with_files_are_the_expected_ones():
    assert {folder.name for folder in data_dir("conf").iterdir() if folder.is_dir()} >= set(GROUPS)
    assert all(files_of(group) for group in GROUPS)


def test_the_defaults_are_what_the_documents_promise(configure):
    values = plain(configure(base=()))
    assert list(values)[:4] == ["dataset", "problem", "model", "solver"]
    assert values["evaluation"]["every_passes"] == 1.0
    assert (values["trainer"]["dtype"], values["trainer"]["threads"]) == ("float64", 1)
    assert (values["seed"], values["dataset"]["seed"], values["timeout"]) == (0, 0, None)


def test_the_kl_experiment_is_the_stated_problem(configure):
    config = configure("experiment=kl_synthetic", base=())
    assert (config.dataset.name, config.dataset.rows, config.dataset.features) == ("synthetic", 10000, 10)
    assert config.dataset.conditioning == "ill"
    assert (config.problem.gamma, config.problem.l1, config.problem.l2) == (1.0, 0.0, 1e-3)
    assert config.model.intercept is False
    assert config.budget.target_gap == 1e-6


def test_a_setting_on_the_command_line_beats_the_experiment(configure):
    assert configure("experiment=kl_synthetic", "problem.gamma=2", base=()).problem.gamma == 2.0
    assert configure("experiment=kl_synthetic", "dataset=breast_cancer", base=()).dataset.name == "breast_cancer"


def test_debug_makes_any_run_small(configure):
    config = configure("debug=default", "solver=scgd", base=())
    assert (config.dataset.name, config.dataset.rows, config.budget.passes) == ("synthetic", 200, 5)
    assert config.solver.name == "scgd"


def test_hidden_widths_replace_the_default_ones(configure):
    assert configure("model=mlp", base=()).model.hidden == [128, 128]
    assert configure("model=mlp", "model.hidden=[7]", base=()).model.hidden == [7]


@pytest.mark.parametrize(
    ("group", "wrong", "right"),
    [
        ("solver", "gcvir", "gcivr"),
        ("problem", "kl_clasification", "kl_classification"),
        ("dataset", "brest_cancer", "breast_cancer"),
        ("budget", "smok", "smoke"),
        ("trainer", "ddpcpu", "ddp_cpu"),
        ("model", "linaer", "linear"),
        ("logger", "csvv", "csv"),
        ("experiment", "kl_synthetik", "kl_synthetic"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_and_all_others(configure, group, wrong, right):
    choices = [name for kind, name in (*plugin_choices(), *files_of(group)) if kind == group]
    with pytest.raises(ConfigError, match=f"no {group} called '{wrong}'. Did you mean '{right}'?") as refusal:
        configure(f"{group}={wrong}", base=())
    listed = str(refusal.value).split("can be: ")[1].rstrip(".").split(", ")
    assert listed == sorted(choices)


def test_an_unknown_name_that_resembles_nothing_gets_no_hint(configure):
    with pytest.raises(ConfigError, match="no solver called 'zzzzzz'") as refusal:
        configure("solver=zzzzzz", base=())
    assert "Did you mean" not in str(refusal.value)


def test_an_unknown_name_mentions_plugins_that_could_not_be_used(configure, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "broken_guest", "raise RuntimeError('no')")))
    load_catalogue.cache_clear()
    try:
        with pytest.raises(ConfigError, match="Plugins that could not be used:") as refusal:
            configure("solver=zzzzzz", using=load_catalogue(), base=())
    finally:
        load_catalogue.cache_clear()
        forget_module("broken_guest")
    assert "'broken_guest' of stranger" in str(refusal.value)


@pytest.mark.parametrize(
    ("word", "key", "near"),
    [
        ("solver.stepsize=1", "solver.stepsize", "solver.step_size"),
        ("problem.gama=1", "problem.gama", "problem.gamma"),
        ("dataset.spilt=[1,0,0]", "dataset.spilt", "dataset.split"),
        ("model.hiden=[1]", "model.hiden", "model.hidden"),
        ("budget.pases=1", "budget.pases", "budget.passes"),
        ("trainer.device=2", "trainer.device", "trainer.devices"),
        ("evaluation.every_pass=2", "evaluation.every_pass", "evaluation.every_passes"),
        ("reformulation.alpa=2", "reformulation.alpa", "reformulation.alpha"),
        ("sed=3", "sed", "seed"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(configure, word, key, near):
    with pytest.raises(ConfigError) as refusal:
        configure(word, base=())
    assert f"no setting `{key}`" in str(refusal.value)
    assert f"Did you mean '{near}'?" in str(refusal.value)


def test_a_setting_of_another_plugin_is_refused_with_its_owners(configure):
    with pytest.raises(ConfigError, match=r"has no setting `hidden`; it is one of model=mlp\.$"):
        configure("model.hidden=[3]", base=())


@pytest.mark.parametrize("word", ["+solver.stepsize=1", "+sed=3", "+budget.pases=1"])
def test_an_unknown_key_is_refused_even_if_it_is_added_by_force(configure, word):
    # It would change nothing, and its author would believe that it did.
    with pytest.raises(DrobenchError, match=word.lstrip("+").split("=")[0].split(".")[-1]):
        configure(word, base=())


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("seed=abc", "abc"),
        ("seed=1.5", "1.5"),
        ("problem.gamma=much", "much"),
        ("dataset.split=[0.5,x,0.1]", "x"),
        ("dataset.standardize=perhaps", "perhaps"),
        ("budget.steps=many", "many"),
        ("trainer.threads=[1]", "[1]"),
        ("model.intercept=wide", "wide"),
        ("timeout=soon", "soon"),
    ],
)
def test_a_wrong_type_is_refused_naming_key_and_value(configure, word, value):
    with pytest.raises(ConfigError) as refusal:
        configure(word, base=())
    assert word.split("=")[0] in str(refusal.value)
    assert value in str(refusal.value)
    assert "object_type" not in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "mentioned"),
    [
        (["solver.step_size=-1"], "step_size"),
        (["solver=scgd", "solver.batch=0"], "batch"),
        (["solver=unconstrained", "solver.optimizer=newton"], "optimizer"),
        (["problem.gamma=0"], "gamma"),
        (["problem.gamma=-2"], "gamma"),
        (["problem.gamma=nan"], "gamma"),
        (["problem.gamma=inf"], "gamma"),
        (["problem.l2=-0.1"], "l2"),
        (["problem.l1=-0.1"], "l1"),
        (["problem.loss=squared"], "loss"),
        (["budget.passes=null"], "budget.passes"),
        (["budget.passes=null", "budget.target_gap=0.1"], "budget.steps"),
        (["budget.steps=0"], "steps"),
        (["budget.seconds=-1"], "seconds"),
        (["trainer.devices=2"], "trainer=ddp_cpu"),
        (["trainer=gpu", "trainer.devices=2"], "trainer=ddp"),
        (["trainer.devices=0"], "devices"),
        (["trainer.threads=0"], "threads"),
        (["trainer.dtype=float16"], "dtype"),
        (["evaluation.every_passes=0"], "every_passes"),
        (["dataset.split=[0.5,0.6,0.1]"], "dataset.split"),
        (["dataset.split=[0,0.5,0.5]"], "dataset.split"),
        (["dataset.split=[0.5,0.5]"], "dataset.split"),
        (["dataset.split=[0.9,-0.1,0.1]"], "dataset.split"),
        (["dataset.seed=-1"], "dataset.seed"),
        (["dataset=synthetic", "dataset.rows=0"], "rows"),
        (["dataset=synthetic", "dataset.conditioning=bad"], "conditioning"),
        (["model=mlp", "model.hidden=[]"], "MlpConfig.hidden"),
        (["model=mlp", "model.hidden=[3,0]"], "MlpConfig.hidden"),
        # numpy's generators know no negative seed, and no process ends before it began.
        (["seed=-1"], "seed"),
        (["timeout=-1"], "timeout"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, list) else "",
)
def test_an_impossible_value_is_refused_before_anything_is_computed(configure, words, mentioned):
    with pytest.raises(DrobenchError) as refusal:
        configure(*words, base=())
    assert mentioned in str(refusal.value)


def test_the_configuration_goes_through_yaml_unchanged(configure, catalogue):
    config = configure(
        "solver=scgd", f"solver.step_size={1 / 3!r}", "problem.l2=1e-07", "problem.gamma=123456789.25", "seed=7",
        "model=mlp", "model.hidden=[3,2]", "budget.target_gap=1e-12", "timeout=2.5",
        "reformulation.continuation=[1,0.1]",
    )  # fmt: skip
    back = from_yaml(to_yaml(config), catalogue)
    assert plain(back) == plain(config)
    assert plain(back)["solver"]["step_size"] == 1 / 3
    assert identify(back, catalogue, "data") == identify(config, catalogue, "data")
    assert isinstance(back.solver, catalogue.solver("scgd").entry.config)
    assert dataclasses.is_dataclass(back.budget)
    assert to_yaml(back) == to_yaml(config)


def test_a_plain_configuration_consists_of_plain_values(configure):
    def check(value):
        if isinstance(value, dict):
            assert all(type(key) is str for key in value)
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)
        else:
            assert value is None or type(value) in (bool, int, float, str)

    check(plain(configure("model=mlp")))


@pytest.mark.parametrize(
    ("old", "new", "error", "mentioned"),
    [
        ("name: gcivr", "name: gcvir", UnknownName, "gcivr"),
        ("l2: 0.1", "l3: 0.1", ConfigError, "l3"),
        ("l2: 0.1", "l2: big", ConfigError, "big"),
        ("l2: 0.1", "l2: -1", SettingError, "l2"),
        ("seed: 5", "seed: x", ConfigError, "seed"),
    ],
)
def test_yaml_is_checked_against_the_plugins_of_today(configure, catalogue, old, new, error, mentioned):
    text = to_yaml(configure("seed=5"))
    assert old in text
    with pytest.raises(error, match=mentioned):
        from_yaml(text.replace(old, new), catalogue)


@pytest.mark.parametrize("text", ["solver: [", "", "just text"], ids=["cut short", "empty", "no mapping"])
def test_yaml_that_is_no_configuration_is_refused_as_such(catalogue, text):
    with pytest.raises(DrobenchError):
        from_yaml(text, catalogue)


@dataclass
class UnstorableConfig:
    """A complex number has no place in a YAML file."""

    point: complex = 1j


def test_a_config_that_cannot_be_a_schema_is_reported_by_name():
    catalogue = catalogue_with(solvers=(guest("odd", config=UnstorableConfig),))
    with pytest.raises(ConfigError) as refusal:
        register(catalogue)
    for mentioned in ("UnstorableConfig", "stranger 1.0", "'guest'", "complex", "DROBENCH_DISABLE_PLUGINS=guest"):
        assert mentioned in str(refusal.value)


@dataclass
class RichConfig:
    """Everything a schema can hold."""

    flag: bool = True
    count: int | None = None
    rates: list[float] = field(default_factory=lambda: [0.1])
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.count == 13:
            raise SettingError("RichConfig.count must not be 13.")


def test_a_strangers_config_is_typed_and_checked_like_ours(configure):
    catalogue = catalogue_with(solvers=(guest("rich", config=RichConfig),))
    solver = configure("solver=rich", "solver.rates=[1,2]", "+solver.weights.a=3", using=catalogue).solver
    assert (solver.name, solver.flag, solver.count, solver.rates, solver.weights) == (
        "rich", True, None, [1.0, 2.0], {"a": 3.0},
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"Did you mean 'solver\.rates'"):
        configure("solver=rich", "solver.rate=[1]", using=catalogue)
    with pytest.raises(ConfigError, match="flag"):
        configure("solver=rich", "solver.flag=7.5", using=catalogue)
    with pytest.raises(SettingError, match="13"):
        configure("solver=rich", "solver.count=13", using=catalogue)


def test_a_plugin_with_postponed_annotations_is_understood(configure, tmp_path, monkeypatch):
    source = """
    from __future__ import annotations
    from dataclasses import dataclass
    from drobench import SolverEntry, hookimpl
    from drobench.objective.forms import FiniteSum

    @dataclass
    class LateConfig:
        rate: float | None = None

    @hookimpl
    def drobench_solvers():
        return [SolverEntry(name="late", summary="Late.", config=LateConfig, factory=LateConfig, accepts=(FiniteSum,))]
    """
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "late_guest", source)))
    load_catalogue.cache_clear()
    try:
        assert configure("solver=late", "solver.rate=2", using=load_catalogue()).solver.rate == 2.0
        with pytest.raises(ConfigError, match="fast"):
            configure("solver=late", "solver.rate=fast", using=load_catalogue())
    finally:
        load_catalogue.cache_clear()
        forget_module("late_guest")


@pytest.mark.parametrize("place", ["/", "elsewhere"])
def test_the_configuration_is_found_from_any_working_directory(configure, tmp_path, monkeypatch, place):
    folder = tmp_path / place
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    assert (data_dir("conf") / "run.yaml").is_file()
    assert (data_dir("sweeps") / "quickstart.yaml").is_file()
    assert data_dir("conf").is_absolute()
    assert configure("budget=smoke", base=()).budget.passes == 3


def test_a_conf_folder_in_the_working_directory_is_not_mistaken_for_ours(configure, tmp_path):
    (tmp_path / "conf" / "budget").mkdir(parents=True)
    (tmp_path / "conf" / "budget" / "smoke.yaml").write_text("passes: 99\n")
    assert configure("budget=smoke", base=()).budget.passes == 3


def test_the_results_folder_comes_from_the_environment_or_the_command_line(catalogue, monkeypatch):
    register(catalogue)
    with hydra_ready():
        assert compose([], catalogue).results == "results"
        monkeypatch.setenv("DROBENCH_RESULTS", "/somewhere/else")
        assert compose([], catalogue).results == "/somewhere/else"
        assert compose(["results=here"], catalogue).results == "here"


def test_composing_inside_a_hydra_job_leaves_that_job_as_it_was(catalogue):
    from hydra.core.global_hydra import GlobalHydra

    register(catalogue)
    with hydra_ready():
        outer = GlobalHydra.instance().hydra
        with hydra_ready():
            assert GlobalHydra.instance().hydra is not outer
            compose(list(SMALL), catalogue)
        assert GlobalHydra.instance().hydra is outer
    assert not GlobalHydra.instance().is_initialized()


def test_conf_files_use_only_names_and_settings():
    for file in data_dir("conf").rglob("*.yaml"):
        text = textwrap.dedent(Path(file).read_text())
        assert "_target_" not in text, f"{file} holds an import path"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("problem.name=cvar_classification", "problem=cvar_classification"),
        ("solver.name=scgd", "solver=scgd"),
        ("dataset.name=digits", "dataset=digits"),
        ("++problem={name:cvar_classification}", "problem=cvar_classification"),
        ("++solver.name=nothing_at_all", "solver=nothing_at_all"),
    ],
)
def test_a_plugin_is_not_renamed(configure, word, meant):
    """What is computed would stay, and be stored under the other name."""
    with pytest.raises(ConfigError, match=f"`{meant}` is meant"):
        configure(word, base=())
    assert configure("problem=kl_classification", "problem.name=kl_classification", base=())


@pytest.mark.parametrize(
    "word", ["budget=40", "solver=1", "model=true", "solver=null", "solver=[gcivr,scgd]", "experiment=1"]
)
def test_a_group_is_chosen_by_its_name(configure, word):
    with pytest.raises(ConfigError, match="is chosen by its name"):
        configure(word, base=())


@pytest.mark.parametrize(
    "word", ["evaluation=${now:%Y}", "budget=${evaluation}", "timeout=" + "9" * 400, "hydra/launcher=3", "=3", "+=a"]
)
def test_what_hydra_stumbles_over_is_a_message(configure, word):
    with pytest.raises(ConfigError) as caught:
        configure(word, base=())
    assert str(caught.value).strip()


def test_nothing_of_the_environment_enters_a_stored_configuration(configure, catalogue, monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter2")
    text = to_yaml(configure("seed=5", "logger=wandb"))
    for written in ("${oc.env:A_SECRET}", '"\\x24{oc.env:A_SECRET}"', "x${seed}", "'${'"):
        stranger = text.replace("project: drobench", f"project: {written}")
        assert stranger != text
        with pytest.raises(ConfigError, match=r"`logger\.project`.*nothing of the environment") as caught:
            from_yaml(stranger, catalogue)
        assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError, match="nothing of the environment"):
        from_yaml(text + "'${oc.env:A_SECRET}': 1\n", catalogue)


def test_what_could_not_be_read_again_is_not_begun(configure):
    with pytest.raises(ConfigError, match=r"logger\.project"):
        configure("logger=wandb", "logger.project=\\${seed}", base=())


@pytest.mark.parametrize(
    "text", ["solver: 3", "solver: {name: [1]}", "solver: {name: {a: 1}}", "1: 2", "a: &a [*a]", "seed: " + "9" * 400]
)
def test_stored_configurations_of_other_shapes_are_refused(configure, catalogue, text):
    whole = yaml.safe_load(to_yaml(configure()))
    try:
        whole |= yaml.safe_load(text)
        written = yaml.safe_dump(whole)
    except yaml.YAMLError:
        written = text
    with pytest.raises(DrobenchError):
        from_yaml(written, catalogue)


def test_a_seed_is_one_that_generators_take(configure):
    assert configure(f"seed={2**63 - 1}", base=()).seed == 2**63 - 1
    for seed in (2**63, 2**64, 10**400):
        with pytest.raises(SettingError, match=r"RunConfig\.seed must be at most 9223372036854775807"):
            configure(f"seed={seed}", base=())


def test_numbers_beyond_all_floats_are_refused_like_others(configure):
    with pytest.raises(DrobenchError, match="steps"):
        configure(f"budget.steps={10**400}", base=())


def test_the_results_folder_may_be_at_home(configure, catalogue, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    register(catalogue)
    with hydra_ready():
        assert resolve(compose(["results=~/y"], catalogue)).results == "/home/somebody/y"
        assert resolve(compose(["results='~/y'"], catalogue)).results == "/home/somebody/y"
        monkeypatch.setenv("DROBENCH_RESULTS", "~/z")
        assert resolve(compose([], catalogue)).results == "/home/somebody/z"
        with pytest.raises(DrobenchError, match="cannot be found"):
            resolve(compose(["results='~nobody_of_this_name/y'"], catalogue))


@dataclass
class TouchyConfig:
    """Settings that raise whatever they like."""

    rate: float = 0.1

    def __post_init__(self):
        if self.rate == 1:
            raise KeyError("touchy")
        if self.rate == 2:
            sys.exit(0)
        if self.rate == 3:
            os._exit(0)


@pytest.mark.parametrize(
    ("rate", "said"),
    [(1, "KeyError: 'touchy'"), (2, r"tried to end .*SystemExit: 0"), (3, r"tried to end .*os._exit: 0")],
)
def test_a_config_of_a_plugin_that_raises_anything_is_named(configure, rate, said):
    guests = catalogue_with(solvers=(guest("touchy", config=TouchyConfig),))
    with pytest.raises(ConfigError, match=rf"TouchyConfig of solver=touchy cannot be made .*{said}"):
        configure("solver=touchy", f"solver.rate={rate}", using=guests)
