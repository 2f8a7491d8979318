"""The stored configuration of a run, read without its solver and with settings that came later."""

import pytest
import yaml

from drobench.app.config import ConfigError, to_yaml
from drobench.app.stored_config import scored_part, stored_values
from drobench.registry import UnknownName


@pytest.fixture
def values(configure):
    return stored_values(to_yaml(configure("problem.gamma=0.25", "trainer.dtype=float32")))


def test_the_part_that_scores_depend_on_is_typed(values, configure, catalogue):
    found, config = scored_part(values, catalogue), configure("problem.gamma=0.25")
    assert (found.dataset, found.problem, found.model) == (config.dataset, config.problem, config.model)
    assert found.dtype == "float32"


def test_the_solver_need_not_be_here(values, catalogue):
    values["solver"]["name"] = "somebody_elses"
    assert scored_part(values, catalogue).problem.gamma == 0.25


@pytest.mark.parametrize("group", ["dataset", "problem"])
def test_problem_and_data_must_be(values, catalogue, group):
    values[group]["name"] = "somebody_elses"
    with pytest.raises(UnknownName, match="somebody_elses"):
        scored_part(values, catalogue)


def test_settings_that_came_later_have_their_defaults(values, configure, catalogue):
    del values["problem"]["l1"], values["dataset"]["order"], values["model"]["intercept"]
    found, config = scored_part(values, catalogue), configure("problem.gamma=0.25")
    assert (found.dataset, found.problem, found.model) == (config.dataset, config.problem, config.model)


def test_a_setting_that_is_gone_is_named(values, catalogue):
    values["problem"]["former"] = 1
    with pytest.raises(ConfigError, match=r"`problem` of the stored configuration is not one of this version.*former"):
        scored_part(values, catalogue)


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "dataset: 3", "", "!!python/object:os.system {}"])
def test_other_shapes_are_refused(text):
    with pytest.raises(ConfigError, match="stored configuration"):
        stored_values(text)


def test_a_missing_part_is_named(values):
    del values["evaluation"]
    with pytest.raises(ConfigError, match="`evaluation` of the stored configuration must be a mapping"):
        stored_values(yaml.safe_dump(values))
