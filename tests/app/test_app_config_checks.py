"""What Hydra would take and we do not. How it is met on a command line is tested with the configuration."""

from dataclasses import dataclass, field

import pytest
from omegaconf import OmegaConf

from drobench.app.config_checks import refuse_added_keys, refuse_interpolations, refuse_other_kinds, refuse_other_names
from drobench.app.overrides import ConfigError


@dataclass
class Inner:
    rate: float = 0.1
    name: str = "mine"


@dataclass
class Outer:
    inner: Inner = field(default_factory=Inner)
    weights: dict[str, float] = field(default_factory=dict)


@pytest.fixture
def composed():
    config = OmegaConf.structured(Outer)
    OmegaConf.set_struct(config, False)
    return config


def test_a_key_is_added_only_where_keys_are_free(composed):
    composed.weights["a"] = 1.0
    refuse_added_keys(composed)
    OmegaConf.update(composed, "inner.rat", 3, force_add=True)
    with pytest.raises(ConfigError, match=r"no setting `inner\.rat`. Did you mean 'rate'"):
        refuse_added_keys(composed)


def test_a_name_is_that_of_what_was_chosen(composed):
    refuse_other_names(composed, ["inner"])
    composed.inner.name = "yours"
    with pytest.raises(ConfigError, match="`inner=yours` is meant"):
        refuse_other_names(composed, ["inner"])
    with pytest.raises(ConfigError, match="A run needs a weights"):
        refuse_other_names(composed, ["weights"])


def test_settings_are_of_their_own_kind():
    refuse_other_kinds(Outer())
    with pytest.raises(ConfigError, match="inner must be settings of its own kind"):
        refuse_other_kinds(Outer(inner="text"))


@pytest.mark.parametrize("values", [{"a": "${b}"}, {"a": [{"${b}": 1}]}, {"a": "x${"}])
def test_nothing_is_filled_in(values):
    with pytest.raises(ConfigError, match=r"The file has .* as `a"):
        refuse_interpolations(values, "The file")
    refuse_interpolations({"a": ["$b", "{b}", 3, None]}, "The file")
