"""A model of an entry, as a problem is given it."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from drobench.objective.predictor import LinearPredictor, build_predictor
from drobench.registry import EntryError, ModelEntry, UnknownName, load_catalogue
from drobench.registry.models import PluginModel, model_of


@dataclass
class Settings:
    """Of the sample."""

    name: str = "sample"
    width: int = 3


def layers(config, shape, outputs):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(torch.Size(shape).numel(), config.width), nn.Linear(config.width, outputs)
    )


@dataclass
class Plain:
    """Of the sample."""

    width: int = 3


def entry(**changes):
    described = {"name": "sample", "summary": "A sample.", "config": Plain, "factory": layers}
    return ModelEntry(**{**described, **changes})


def test_the_settings_reach_the_factory():
    predictor = build_predictor(PluginModel(entry(), Settings(width=2)), (1, 2, 2))
    assert predictor.shape == (4,)
    assert predictor.dimension == 4 * 2 + 2 + 2 + 1


def test_rows_come_in_their_shape_where_one_is_needed():
    predictor = build_predictor(PluginModel(entry(needs=frozenset({"images"})), Settings()), (1, 2, 2))
    assert predictor.shape == (1, 2, 2)


def test_an_entry_may_draw_the_start_itself():
    def ones(module, generator):
        for value in module.parameters():
            nn.init.constant_(value, float(torch.randint(5, (1,), generator=generator)))

    predictor = build_predictor(PluginModel(entry(start=ones), Settings()), 4)
    start = predictor.start(torch.Generator().manual_seed(1))
    drawn = torch.randint(5, (1,), generator=torch.Generator().manual_seed(1))
    assert torch.equal(start[:12], drawn.expand(12).double())


def test_the_catalogue_has_the_model_that_a_configuration_names():
    catalogue = load_catalogue()
    found = model_of(Settings(name="linear"), catalogue)
    assert (found.name, found.shaped) == ("linear", False)
    config = catalogue.model("linear").entry.config(intercept=False)
    config.name = "linear"
    linear = build_predictor(model_of(config, catalogue), 4)
    assert isinstance(linear, LinearPredictor)
    assert not linear.intercept
    assert not model_of(config, catalogue).intercept
    with pytest.raises(UnknownName, match=r"no model called 'forest'.* Installed models: cnn, linear, mlp"):
        model_of(Settings(name="forest"), catalogue)


@pytest.mark.parametrize(("changes", "field"), [({"needs": {"images"}}, "needs"), ({"start": 3}, "start")])
def test_an_entry_that_contradicts_itself_is_refused(changes, field):
    with pytest.raises(EntryError, match=f"ModelEntry 'sample': `{field}` must be"):
        entry(**changes)
