"""Proximal steps in the metric of a matrix, against a conic solver."""

import cvxpy as cp
import numpy as np
import pytest
import torch

from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import Affine, Blocks, Box, ElasticNet, RegularizedCone, Zero
from drobench.solver import metric_factor, metric_step, positive_factor

SIZE = 5


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def oracle_of(regularizer):
    form = FunctionComposite(SIZE, 1, 0, regularizer, loss=lambda point, rows: point.sum().expand(rows.numel()))
    return CompositeOracle(form, 0, torch.zeros(SIZE, dtype=torch.float64))


def values(kind, variable):
    """Return a regularizer, written for us and for the conic solver, with its constraints."""
    slope = noise(SIZE, seed=9)
    return {
        "none": (Zero(), 0.0, []),
        "l2": (ElasticNet(l2=0.3), 0.15 * cp.sum_squares(variable), []),
        "l1": (ElasticNet(0.2, 0.1), 0.2 * cp.norm1(variable) + 0.05 * cp.sum_squares(variable), []),
        "affine": (
            Affine(slope, base=ElasticNet(l2=0.1)),
            slope.numpy() @ variable + 0.05 * cp.sum_squares(variable),
            [],
        ),
        "bound": (
            Blocks(SIZE - 1, ElasticNet(l2=0.1), Affine(slope[:1], base=Box(0.5, float("inf")))),
            0.05 * cp.sum_squares(variable[:-1]) + float(slope[0]) * variable[-1],
            [variable[-1] >= 0.5],
        ),
        "interval": (
            Blocks(SIZE - 1, ElasticNet(l2=0.1), Affine(slope[:1], base=Box(4.5, 4.9))),
            0.05 * cp.sum_squares(variable[:-1]) + float(slope[0]) * variable[-1],
            [variable[-1] >= 4.5, variable[-1] <= 4.9],
        ),
        "box": (Box(-0.5, 0.5), 0.0, [variable >= -0.5, variable <= 0.5]),
        "bound and l1": (
            Blocks(SIZE - 1, ElasticNet(0.2, 0.1), Box(0.5, float("inf"))),
            0.2 * cp.norm1(variable[:-1]) + 0.05 * cp.sum_squares(variable[:-1]),
            [variable[-1] >= 0.5],
        ),
        "cone": (
            RegularizedCone("l2", 0.4, 0.1),
            0.4 * variable[-1] + 0.05 * cp.sum_squares(variable[:-1]),
            [cp.norm(variable[:-1], 2) <= variable[-1]],
        ),
    }[kind]


@pytest.mark.parametrize("length", [1.0, 0.3])
@pytest.mark.parametrize("kind", ["none", "l2", "l1", "affine", "bound", "interval", "box", "bound and l1", "cone"])
def test_steps_are_those_of_a_conic_solver(kind, length):
    root = noise(SIZE, SIZE, seed=1)
    hessian, point, gradient = (
        root @ root.T + 0.05 * torch.eye(SIZE, dtype=torch.float64),
        noise(SIZE, seed=2),
        noise(SIZE, seed=3),
    )
    if kind == "box":
        point = point.clamp(-0.5, 0.5)
    elif kind in ("bound", "interval", "bound and l1", "cone"):
        point[-1] = 4.8
    variable = cp.Variable(SIZE)
    regularizer, penalty, conditions = values(kind, variable)
    oracle = oracle_of(regularizer)
    found = metric_step(oracle, point, gradient, metric_factor(oracle, hessian, point), length, 1e-12)
    move = variable - point.numpy()
    # A regularizer that is smooth, but for a bound, is a part of the model, towards whose minimum a shorter step goes.
    in_model = kind in ("none", "l2", "affine", "bound", "interval")
    assert in_model == (oracle.regularizer_is_smooth or oracle.regularizer_bound(point) is not None)
    scale = 1.0 if in_model else 1.0 / length
    model = gradient.numpy() @ move + 0.5 * scale * cp.quad_form(move, cp.psd_wrap(hessian.numpy())) + penalty
    cp.Problem(cp.Minimize(model), conditions).solve(solver=cp.CLARABEL)
    expected = variable.value
    if in_model:
        expected = point.numpy() + length * (expected - point.numpy())
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=2e-5)


class TestPositiveFactor:
    def test_a_positive_matrix_is_left_alone(self):
        matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
        factor = positive_factor(matrix)
        torch.testing.assert_close(factor @ factor.T, matrix)

    def test_of_negative_values_the_size_is_taken(self):
        factor = positive_factor(torch.tensor([3.0, -2.0], dtype=torch.float64).diag())
        torch.testing.assert_close((factor @ factor.T).diagonal(), torch.tensor([3.0, 2.0], dtype=torch.float64))

    def test_a_singular_matrix_is_raised(self):
        factor = positive_factor(torch.ones(3, 3, dtype=torch.float64))
        assert float(torch.linalg.eigvalsh(factor @ factor.T)[0]) > 0.0

    @pytest.mark.parametrize("entry", [torch.nan, torch.inf])
    def test_what_is_not_finite_is_replaced(self, entry):
        matrix = torch.full((2, 2), entry, dtype=torch.float64)
        torch.testing.assert_close(positive_factor(matrix), torch.eye(2, dtype=torch.float64))

    def test_no_curvature_at_all(self):
        torch.testing.assert_close(positive_factor(torch.zeros(2, 2)), torch.eye(2))

    def test_next_to_no_curvature_is_none(self):
        """What tails of exponentials leave is no metric: the reciprocal of its size is no number."""
        tiny = 1e-180 * torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
        torch.testing.assert_close(positive_factor(tiny), torch.eye(2, dtype=torch.float64))
        small = 1e-80 * torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
        factor = positive_factor(small)
        torch.testing.assert_close(1e80 * factor @ factor.T, 1e80 * small)
