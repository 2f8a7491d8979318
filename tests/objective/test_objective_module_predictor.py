"""Any module as a predictor: what it computes, how it starts, and which modules are refused."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from drobench.objective.losses import CrossEntropyLoss, LogisticLoss
from drobench.objective.models import Model
from drobench.objective.module_predictor import ModulePredictor, UnusableModel
from drobench.objective.predictor import LinearPredictor, build_predictor

SHAPE = (2, 4, 4)


@dataclass
class Made(Model):
    """A model of whatever a function returns for inputs and outputs."""

    make: Any
    name: str = "made"
    shaped: bool = True

    def module(self, shape, outputs):
        return self.make(shape, outputs)


def convolution(shape, outputs):
    return nn.Sequential(nn.Conv2d(shape[0], 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, outputs))


class Shifted(nn.Module):
    """A layer between constants: a buffer, and a parameter that asks for no gradient."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)
        self.frozen = nn.Parameter(torch.rand(outputs), requires_grad=False)
        self.register_buffer("shift", torch.arange(inputs) * 0.1)

    def forward(self, rows):
        return self.layer(rows + self.shift) * self.frozen


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_the_module_with_the_numbers_of_the_point(random_points, classes):
    predictor = build_predictor(Made(convolution), SHAPE, classes)
    outputs = 1 if classes == 2 else classes
    module = convolution(SHAPE, outputs).to(torch.float64)
    point, rows = random_points(0, predictor.dimension), random_points(1, 5, 32)
    nn.utils.vector_to_parameters(point, module.parameters())
    expected = module(rows.view(5, *SHAPE)).detach()
    found = predictor.scores(point, rows)
    assert found.shape == ((5,) if classes == 2 else (5, 3))
    torch.testing.assert_close(found.reshape(expected.shape), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("classes", [2, 3])
def test_gradients_are_those_of_finite_differences(random_points, classes):
    predictor = build_predictor(Made(convolution), SHAPE, classes)
    rows, labels = random_points(1, 6, 32), torch.tensor([0, 1, 1, 0, 1, 0])
    targets = 2.0 * labels - 1.0 if classes == 2 else labels
    losses = predictor.losses(rows, targets.to(rows.dtype) if classes == 2 else targets,
                              LogisticLoss() if classes == 2 else CrossEntropyLoss())  # fmt: skip
    point, step = 0.3 * random_points(2, predictor.dimension), 1e-6
    gradient = losses.mean(point[None], slice(None))[1][0]
    for direction in torch.nn.functional.normalize(random_points(3, 4, predictor.dimension)):
        above, below = losses.values(point + step * direction).mean(), losses.values(point - step * direction).mean()
        assert float(gradient.dot(direction)) == pytest.approx(float(above - below) / (2 * step), rel=1e-6, abs=1e-9)


def test_what_is_not_trained_is_a_constant_in_any_precision(random_points):
    predictor = build_predictor(Made(lambda shape, outputs: Shifted(32, outputs), shaped=False), SHAPE, 3)
    assert predictor.dimension == 32 * 3 + 3
    point, rows = random_points(0, predictor.dimension), random_points(1, 5, 32)
    again = build_predictor(predictor.model, SHAPE, 3)
    assert torch.equal(predictor.scores(point, rows), again.scores(point, rows))
    layer = point[:96].view(3, 32), point[96:]
    frozen = predictor._constants["frozen"]
    expected = ((rows + torch.arange(32) * 0.1) @ layer[0].T + layer[1]) * frozen
    # The steps of the buffer were made in single precision.
    torch.testing.assert_close(predictor.scores(point, rows), expected, rtol=1e-6, atol=1e-6)
    single = predictor.scores(point.float(), rows.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-4)


def test_one_linear_layer_has_closed_forms():
    linear = build_predictor(Made(lambda shape, outputs: nn.Linear(*shape, outputs, bias=False), shaped=False), 4, 3)
    assert isinstance(linear, LinearPredictor)
    assert (linear.dimension, linear.intercept) == (12, False)
    deeper = build_predictor(Made(lambda shape, outputs: nn.Sequential(nn.Linear(*shape, outputs))), 4)
    assert isinstance(deeper, ModulePredictor)


def test_the_start_is_the_modules_own_and_seeded():
    predictor = build_predictor(Made(convolution), SHAPE)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    starts = [predictor.start(torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
    assert (starts[0].dtype, starts[0].shape) == (torch.float64, (predictor.dimension,))
    # Torch draws a convolution uniformly within one over the root of its fan-in.
    weights = starts[0][: 3 * 2 * 9]
    assert 0.8 < float(weights.abs().max()) * 18**0.5 <= 1.0


class Counting(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, rows):
        self.calls += 1
        return self.layer(rows)


class Centred(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, rows):
        return self.layer(rows - rows.mean(dim=0))


class Plain(nn.Module):
    def forward(self, rows):
        return rows[:, :1]


def with_nan(shape, outputs):
    layers = nn.Sequential(nn.Linear(shape[0], 3), nn.Linear(3, outputs))
    nn.init.constant_(layers[0].bias, float("nan"))
    return layers


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda shape, outputs: nn.Sequential(nn.BatchNorm1d(*shape), nn.Linear(*shape, outputs)), "running_mean"),
        (lambda shape, outputs: Counting(*shape, outputs), "a call changes 'calls'"),
        (lambda shape, outputs: nn.Sequential(nn.Linear(*shape, outputs), nn.Dropout(0.5)), "two calls .* differ"),
        (lambda shape, outputs: Centred(*shape, outputs), "depend on the rows that stand beside it"),
        (lambda shape, outputs: nn.Sequential(nn.BatchNorm1d(*shape, track_running_stats=False),
                                              nn.Linear(*shape, outputs)), "cannot be called|stand beside"),
        (lambda shape, outputs: nn.Sequential(nn.Linear(*shape, 5)), r"must have the shape \(3, 1\); found \(3, 5\)"),
        (lambda shape, outputs: nn.LSTM(*shape, outputs), "found tuple"),
        (lambda shape, outputs: Plain(), "no parameter that asks for a gradient"),
        (lambda shape, outputs: nn.Sequential(nn.Linear(7, outputs)), "cannot be called on rows of shape"),
        (lambda shape, outputs: 1 / 0, "cannot be made for rows of shape .*ZeroDivisionError"),
        (lambda shape, outputs: "module", "must return a torch.nn.Module; found a str"),
    ],
    ids=["batch norm", "counter", "dropout", "centred", "alone", "outputs", "tuple", "nothing", "inputs", "raises",
         "text"],
)  # fmt: skip
def test_a_module_that_is_no_function_of_one_row_is_refused(make, reason):
    with pytest.raises(UnusableModel, match=f"(?s)Model 'made'.*({reason})"):
        build_predictor(Made(make, shaped=False), 4)


def test_dropout_in_eval_mode_is_a_function():
    made = Made(lambda shape, outputs: nn.Sequential(nn.Linear(*shape, outputs), nn.Dropout(0.5)).eval(), shaped=False)
    assert build_predictor(made, 4).dimension == 5


def test_a_start_that_is_not_finite_is_refused():
    predictor = build_predictor(Made(with_nan, shaped=False), 4)
    with pytest.raises(UnusableModel, match="must be finite; found 3 of 19"):
        predictor.start(torch.Generator().manual_seed(0))


def test_a_shared_parameter_counts_once(random_points):
    class Tied(nn.Module):
        def __init__(self, width, outputs):
            super().__init__()
            self.first = nn.Linear(width, width, bias=False)
            self.second = nn.Linear(width, width, bias=False)
            self.second.weight = self.first.weight
            self.last = nn.Linear(width, outputs, bias=False)

        def forward(self, rows):
            return self.last(self.second(self.first(rows)))

    predictor = build_predictor(Made(lambda shape, outputs: Tied(*shape, outputs), shaped=False), 4)
    assert predictor.dimension == 16 + 4
    point, rows = random_points(0, 20), random_points(1, 5, 4)
    twice = point[:16].view(4, 4)
    expected = rows @ twice.T @ twice.T @ point[16:]
    torch.testing.assert_close(predictor.scores(point, rows), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_module_of_a_point_takes_rows_laid_flat(random_points, classes):
    predictor = build_predictor(Made(convolution), SHAPE, classes)
    point, rows = random_points(0, predictor.dimension), random_points(1, 5, 32)
    expected = predictor.scores(point, rows)
    found = predictor.module(point)(rows).detach()
    torch.testing.assert_close(found.reshape(expected.shape), expected, rtol=1e-13, atol=1e-15)


def test_the_module_of_a_point_has_the_constants_of_the_predictor(random_points):
    predictor = build_predictor(Made(lambda shape, outputs: Shifted(shape[0], outputs)), (4,), 3)
    point, rows = random_points(0, predictor.dimension), random_points(1, 5, 4)
    torch.testing.assert_close(predictor.module(point)(rows).detach(), predictor.scores(point, rows))
