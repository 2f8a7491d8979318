"""Linear and network predictors on one flat parameter vector."""

from itertools import pairwise

import pytest
import torch
from torch.nn.functional import softplus

from drobench.errors import SettingError
from drobench.objective.losses import LinearMarginLosses, LinearTargetLosses, LogisticLoss, ScoreLoss
from drobench.objective.module_predictor import ModulePredictor
from drobench.objective.predictor import LinearPredictor, ModelConfig, build_predictor

WIDTHS = [5, 7, 3, 1]


class SquaredError(ScoreLoss):
    convex = True

    def value_and_slope(self, scores, targets):
        return 0.5 * (scores - targets).square(), scores - targets


def network(inputs, hidden, intercept):
    return build_predictor(ModelConfig("mlp", intercept, hidden), inputs)


def ordinary_network(point, intercept):
    """An `nn.Sequential` that holds the numbers of `point`, layer by layer."""
    layers = []
    for fan_in, fan_out in pairwise(WIDTHS):
        layers += [torch.nn.Linear(fan_in, fan_out, bias=intercept, dtype=torch.float64), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers[:-1])
    torch.nn.utils.vector_to_parameters(point, network.parameters())
    return network


@pytest.mark.parametrize("intercept", [True, False])
def test_linear_scores(intercept, random_points):
    predictor = LinearPredictor(4, intercept)
    point, features = random_points(0, predictor.dimension), random_points(1, 6, 4)
    assert predictor.dimension == 4 + intercept
    expected = features @ point[:4] + (point[4] if intercept else 0.0)
    torch.testing.assert_close(predictor.scores(point, features), expected, rtol=1e-14, atol=1e-15)


def test_the_linear_predictor_starts_at_zero():
    start = LinearPredictor(4, True).start(torch.Generator().manual_seed(0))
    assert torch.equal(start, torch.zeros(5, dtype=torch.float64))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_losses_of_a_predictor_are_losses_of_its_scores(name, intercept, random_points):
    predictor = build_predictor(ModelConfig(name, intercept, WIDTHS[1:-1]), 5)
    features = random_points(1, 6, 5)
    signs = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    points = random_points(2, 2, predictor.dimension)
    losses = predictor.losses(features, signs, LogisticLoss())
    assert (losses.samples, losses.dimension) == (6, predictor.dimension)
    for point in points:
        leaf = point.clone().requires_grad_(True)
        values = softplus(-signs * predictor.scores(leaf, features))
        values.mean().backward()
        torch.testing.assert_close(losses.values(point), values.detach(), rtol=1e-13, atol=0)
        torch.testing.assert_close(losses.mean(point[None], slice(None))[1][0], leaf.grad, rtol=1e-11, atol=1e-14)


def test_linear_losses_of_margins_have_closed_forms(random_points):
    features, signs = random_points(0, 6, 4), torch.ones(6, dtype=torch.float64)
    assert isinstance(LinearPredictor(4, True).losses(features, signs, LogisticLoss()), LinearMarginLosses)
    assert LinearPredictor(4, True).losses(features, signs, LogisticLoss()).convex
    assert not network(4, [3], True).losses(features, signs, LogisticLoss()).convex


def test_linear_scores_take_any_loss(random_points):
    features, targets, point = random_points(0, 6, 4), random_points(1, 6), random_points(2, 5)
    losses = LinearPredictor(4, True).losses(features, targets, SquaredError())
    assert isinstance(losses, LinearTargetLosses)
    residuals = features @ point[:4] + point[4] - targets
    torch.testing.assert_close(losses.values(point), 0.5 * residuals.square(), rtol=1e-13, atol=0)
    gradient = torch.cat([features.T @ residuals, residuals.sum()[None]]) / 6
    torch.testing.assert_close(losses.mean(point[None], slice(None))[1][0], gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_network_is_an_ordinary_network_with_the_same_numbers(intercept, random_points):
    predictor = network(5, WIDTHS[1:-1], intercept)
    point, features = random_points(0, predictor.dimension), random_points(1, 9, 5)
    expected = ordinary_network(point, intercept)(features)[:, 0].detach()
    found = predictor.scores(point, features)
    assert found.shape == (9,)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("intercept", "dimension"), [(True, 5 * 7 + 7 + 7 * 3 + 3 + 3 + 1), (False, 35 + 21 + 3)])
def test_the_network_has_one_number_for_each_weight(intercept, dimension):
    assert network(5, WIDTHS[1:-1], intercept).dimension == dimension


def test_the_start_of_a_network_is_seeded():
    predictor = network(5, WIDTHS[1:-1], True)
    starts = [predictor.start(torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
    assert starts[0].dtype == torch.float64
    assert starts[0].shape == (predictor.dimension,)


def test_the_start_of_a_network_fills_the_bounds_of_each_layer():
    hidden = [100, 400]
    predictor = network(25, hidden, True)
    start = predictor.start(torch.Generator().manual_seed(0))
    sizes = {25: 25 * 100 + 100, 100: 100 * 400 + 400, 400: 400 + 1}
    for (fan_in, size), piece in zip(sizes.items(), start.split(list(sizes.values())), strict=True):
        bound = fan_in**-0.5
        assert piece.numel() == size
        assert piece.abs().max() <= bound
        assert piece.max() > 0.98 * bound
        assert piece.min() < -0.98 * bound
        # A uniform variable has the standard deviation bound / sqrt(3).
        assert float(piece.std()) == pytest.approx(bound / 3**0.5, rel=0.1)
    biases = start[2500:2600]
    assert biases.abs().max() > 0.9 * 0.2


def test_the_configuration_chooses_the_predictor():
    assert isinstance(build_predictor(ModelConfig(), 4), LinearPredictor)
    assert build_predictor(ModelConfig(), 4).dimension == 5
    assert build_predictor(ModelConfig(intercept=False), 4).dimension == 4
    made = build_predictor(ModelConfig("mlp", hidden=[3]), 4)
    assert isinstance(made, ModulePredictor)
    assert made.dimension == 4 * 3 + 3 + 3 + 1


def test_an_unknown_model_is_refused_by_name():
    with pytest.raises(SettingError, match=r"ModelConfig\.name must be one of linear, mlp; found 'forest'"):
        ModelConfig("forest")


@pytest.mark.parametrize("hidden", [[], [0], [5, -1]])
def test_a_network_needs_positive_widths(hidden):
    with pytest.raises(SettingError, match=r"model\.hidden must list at least one positive width"):
        ModelConfig("mlp", hidden=hidden)


@pytest.mark.parametrize("classes", [0, 2, 4])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_the_module_with_the_numbers_of_a_point_gives_its_scores(name, intercept, classes, random_points):
    predictor = build_predictor(ModelConfig(name, intercept, WIDTHS[1:-1]), 5, classes)
    point, features = random_points(2, predictor.dimension), random_points(1, 6, 5)
    expected = predictor.scores(point, features)
    found = predictor.module(point)(features).detach()
    torch.testing.assert_close(found.reshape(expected.shape), expected, rtol=1e-13, atol=1e-15)
