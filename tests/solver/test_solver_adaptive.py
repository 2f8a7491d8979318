"""SGD, Adagrad and Adam against `torch.optim`, to the last digit, and with the constants of Keras."""

import pytest
import torch

from drobench.solver.adaptive import OPTIMIZERS, TORCH_EPSILON, Moments, Step, adagrad, adaptive_step, no_moments

STEPS = 30


def gradients(dtype):
    generator = torch.Generator().manual_seed(0)
    found = torch.randn(STEPS, 17, generator=generator, dtype=dtype)
    # A coordinate that is never moved, and one whose gradients come late.
    found[:, 0] = 0.0
    found[:10, 1] = 0.0
    return found


def path(optimizer, rate, epsilon, accumulator, dtype):
    point = torch.linspace(-1.0, 1.0, 17, dtype=dtype)
    moments, points = no_moments(point, optimizer, accumulator), []
    for count, gradient in enumerate(gradients(dtype), start=1):
        step, moments = adaptive_step(optimizer, gradient, moments, count, rate=rate, epsilon=epsilon)
        point = step.from_point(point)
        points.append(point)
    return points


def torch_path(make, dtype):
    point = torch.linspace(-1.0, 1.0, 17, dtype=dtype).requires_grad_(True)
    optimizer, points = make([point]), []
    for gradient in gradients(dtype):
        point.grad = gradient.clone()
        optimizer.step()
        points.append(point.detach().clone())
    return points


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("optimizer", "rate", "epsilon", "accumulator", "make"),
    [
        ("sgd", 0.3, 0.0, 0.0, lambda p: torch.optim.SGD(p, 0.3, foreach=False)),
        ("adagrad", 0.1, 1e-10, 0.0, lambda p: torch.optim.Adagrad(p, 0.1, foreach=False)),
        (
            "adagrad",
            0.1,
            1e-7,
            0.1,
            lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.1, eps=1e-7, foreach=False),
        ),
        ("adam", 0.01, 1e-8, 0.0, lambda p: torch.optim.Adam(p, 0.01, foreach=False)),
        ("adam", 0.01, 1e-7, 0.0, lambda p: torch.optim.Adam(p, 0.01, eps=1e-7, foreach=False)),
    ],
    ids=["sgd", "adagrad", "adagrad_of_keras", "adam", "adam_of_keras"],
)
def test_the_steps_are_those_of_torch(optimizer, rate, epsilon, accumulator, make, dtype):
    ours, theirs = path(optimizer, rate, epsilon, accumulator, dtype), torch_path(make, dtype)
    # Where the definitions meet, so do the operations; only SGD subtracts a product that torch fuses.
    tolerance = 4 * torch.finfo(dtype).eps if optimizer == "sgd" else 0.0
    for point, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(point, expected, rtol=0, atol=tolerance)
    assert not torch.equal(ours[-1], ours[0])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_nothing_is_changed_in_place(optimizer):
    gradient, point = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 0.5])
    moments = Moments(torch.tensor([0.1, 0.2]), torch.tensor([0.3, 0.4]))
    before = [part.clone() for part in (gradient, point, *moments)]
    step, after = adaptive_step(optimizer, gradient, moments, 3, rate=0.1, epsilon=1e-7)
    moved = step.from_point(point)
    assert all(torch.equal(one, other) for one, other in zip(before, (gradient, point, *moments), strict=True))
    assert not torch.equal(moved, point)
    assert (after is moments) == (optimizer == "sgd")


def test_adagrad_by_hand():
    step, squares = adagrad(torch.tensor([3.0, 0.0]), torch.tensor([16.0, 0.0]), rate=0.5, epsilon=1.0)
    assert squares.tolist() == [25.0, 0.0]
    assert step.from_point(torch.tensor([1.0, 1.0])).tolist() == [1.0 - 0.5 * 3.0 / 6.0, 1.0]


def test_only_adagrad_starts_with_an_accumulator():
    like = torch.ones(2)
    starts = {name: no_moments(like, name, 0.1).second.tolist() for name in OPTIMIZERS}
    assert starts == {"sgd": [0.0, 0.0], "adagrad": [pytest.approx(0.1)] * 2, "adam": [0.0, 0.0]}
    assert set(TORCH_EPSILON) == set(OPTIMIZERS)


def test_a_step_without_scale_is_a_plain_one():
    assert Step(0.5, torch.tensor([2.0])).from_point(torch.tensor([1.0])).tolist() == [0.0]
