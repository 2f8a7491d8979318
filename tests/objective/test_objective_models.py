"""The plain models: their modules, and how their parameters are drawn."""

import pytest
import torch

from drobench.errors import SettingError
from drobench.objective.models import ModelConfig, affine, check_widths, fill_by_fan_in, perceptron


def test_the_plain_models_make_plain_modules():
    assert type(ModelConfig().module((2, 3), 4)) is torch.nn.Linear
    assert affine(6, 4, intercept=False).bias is None
    network = ModelConfig("mlp", hidden=[7]).module((2, 3), 4)
    assert [type(layer).__name__ for layer in network] == ["Linear", "ReLU", "Linear"]
    assert (network[0].in_features, network[-1].out_features) == (6, 4)


def test_parameters_are_drawn_from_the_generator_by_their_fan_in():
    modules = [torch.nn.Sequential(torch.nn.Conv2d(3, 50, 5), torch.nn.Linear(400, 60)) for _ in range(2)]
    for module in modules:
        fill_by_fan_in(module, torch.Generator().manual_seed(3))
    first, second = ([value.detach() for value in module.parameters()] for module in modules)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    for value, fan_in in zip(first, (75, 75, 400, 400), strict=True):
        assert 0.8 < float(value.abs().max()) * fan_in**0.5 <= 1.0 + 1e-6


@pytest.mark.parametrize("widths", [[], [3, 0]])
def test_impossible_widths_are_named(widths):
    with pytest.raises(SettingError, match="setting must list at least one positive width"):
        check_widths("setting", widths)


def test_a_perceptron_without_biases_maps_zero_to_zero():
    network = perceptron(4, 2, [5, 3], intercept=False)
    assert not bool(network(torch.zeros(1, 4)).any())
