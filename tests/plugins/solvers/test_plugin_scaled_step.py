"""Proximal steps in the metric of a quasi-Newton matrix, against a conic solver."""

import cvxpy as cp
import numpy as np
import pytest
import torch

from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import Affine, Blocks, Box, ElasticNet, EuclideanBall, RegularizedCone, Zero
from drobench_plugins.solvers.pieces.curvature_pairs import no_pairs
from drobench_plugins.solvers.pieces.scaled_step import scaled_step

SIZE = 5
KINDS = ("none", "l1", "box", "ball", "bound", "cone")


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def oracle_of(regularizer):
    form = FunctionComposite(SIZE, 1, 0, regularizer, loss=lambda point, rows: point.sum().expand(rows.numel()))
    return CompositeOracle(form, 0, torch.zeros(SIZE, dtype=torch.float64))


def values(kind, variable):
    """Return a regularizer, written for us and for the conic solver, with its constraints."""
    slope = noise(1, seed=9)
    return {
        "none": (Zero(), 0.0, []),
        "l1": (ElasticNet(0.4, 0.1), 0.4 * cp.norm1(variable) + 0.05 * cp.sum_squares(variable), []),
        "box": (Box(-0.5, 0.7), 0.0, [variable >= -0.5, variable <= 0.7]),
        "ball": (EuclideanBall(1.0), 0.0, [cp.norm(variable, 2) <= 1.0]),
        "bound": (
            Blocks(SIZE - 1, ElasticNet(l2=0.1), Affine(slope, base=Box(0.2, float("inf")))),
            0.05 * cp.sum_squares(variable[:-1]) + float(slope[0]) * variable[-1],
            [variable[-1] >= 0.2],
        ),
        "cone": (
            RegularizedCone("l2", 0.4, 0.1),
            0.4 * variable[-1] + 0.05 * cp.sum_squares(variable[:-1]),
            [cp.norm(variable[:-1], 2) <= variable[-1]],
        ),
    }[kind]


def pairs_of(count, seed=0):
    """Return pairs of a positive matrix whose eigenvalues differ by about a hundred."""
    root = noise(SIZE, SIZE, seed=seed)
    bend = root @ root.T + 0.1 * torch.eye(SIZE, dtype=torch.float64)
    kept = no_pairs(root[0], 4, 2.0)
    for move in noise(count, SIZE, seed=seed + 1):
        kept = kept.extended(move, bend @ move, 1e-10)
    return kept


def problem(kind, seed):
    """Return a regularizer, a point of its domain and a gradient there."""
    regularizer = values(kind, cp.Variable(SIZE))[0]
    point = regularizer.prox(0.5 * noise(SIZE, seed=seed + 20), 0.0)
    return regularizer, point, 3.0 * noise(SIZE, seed=seed + 40)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_targets_are_those_of_a_conic_solver(kind, seed):
    regularizer, point, gradient = problem(kind, seed)
    pairs, oracle = pairs_of(6, seed), oracle_of(regularizer)
    target, slope = scaled_step(oracle, point, gradient, pairs, 1e-10, 20000)
    variable = cp.Variable(SIZE)
    _, value, constraints = values(kind, variable)
    times = pairs.product()
    matrix = np.stack([times(unit).numpy() for unit in torch.eye(SIZE, dtype=torch.float64)])
    move = variable - point.numpy()
    model = gradient.numpy() @ move + 0.5 * cp.sum_squares(np.linalg.cholesky(matrix).T @ move)
    cp.Problem(cp.Minimize(model + value), constraints).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(target.numpy(), variable.value, rtol=0, atol=1e-4)
    rise = regularizer.value(target) - regularizer.value(point)
    assert slope == pytest.approx(float(gradient.dot(target - point) + rise))
    # The decrease to first order is at least what the metric makes of the move.
    assert slope <= -float((target - point).dot(times(target - point))) + 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_a_rough_solution_goes_down_as_well(kind):
    regularizer, point, gradient = problem(kind, 3)
    pairs, oracle = pairs_of(6, 3), oracle_of(regularizer)
    for tolerance, most in ((0.1, 200), (0.1, 3), (1e-3, 1)):
        target, slope = scaled_step(oracle, point, gradient, pairs, tolerance, most)
        assert slope < 0.0
        assert bool(regularizer.value(target).isfinite())


@pytest.mark.parametrize("kind", KINDS)
def test_without_pairs_it_is_a_plain_proximal_step(kind):
    regularizer, point, gradient = problem(kind, 4)
    target, _ = scaled_step(oracle_of(regularizer), point, gradient, no_pairs(point, 4, 2.0), 0.1, 200)
    assert torch.equal(target, regularizer.prox(point - gradient / 2.0, 0.5))


def hidden_curvature():
    """Return pairs of a diagonal matrix whose largest entry the newest pair knows nothing of."""
    axes = torch.eye(SIZE, dtype=torch.float64)
    return no_pairs(axes[0], 4, 1.0).extended(axes[0], 1000.0 * axes[0], 1e-10).extended(axes[1], axes[1], 1e-10)


def test_a_curvature_that_shows_late_is_taken_into_account():
    point, gradient = torch.zeros(SIZE, dtype=torch.float64), 3.0 * torch.ones(SIZE, dtype=torch.float64)
    target, _ = scaled_step(oracle_of(Box(-0.5, 0.7)), point, gradient, hidden_curvature(), 1e-10, 20000)
    bends = torch.tensor([1000.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(target, (-gradient / bends).clamp(-0.5, 0.7), rtol=0, atol=1e-9)


def test_iterations_without_a_decrease_leave_the_plain_step():
    point, gradient = torch.zeros(SIZE, dtype=torch.float64), 3.0 * torch.ones(SIZE, dtype=torch.float64)
    # The only iteration finds out that the curvature is larger.
    target, slope = scaled_step(oracle_of(Box(-0.5, 0.7)), point, gradient, hidden_curvature(), 1e-10, 1)
    assert torch.equal(target, torch.full_like(point, -0.5))
    assert slope == pytest.approx(-7.5)


@pytest.mark.parametrize("kind", ["box", "ball", "cone"])
def test_momentum_and_restarts_make_the_iterations_few(kind):
    counted = []
    for seed in range(6):
        regularizer, point, gradient = problem(kind, seed)
        oracle = oracle_of(regularizer)
        scaled_step(oracle, point, gradient, pairs_of(6, seed), 1e-8, 20000)
        counted.append(oracle.counters.projections)
    # Without either, or without restarts, half of them take more than twice as many.
    assert max(counted) < 80


def test_an_optimum_stays_where_it_is():
    point = torch.tensor([0.0, 0.0, 1.0, -1.0, 0.0], dtype=torch.float64)
    regularizer = ElasticNet(0.4, 0.1)
    # Minus a subgradient of the regularizer.
    gradient = torch.tensor([0.3, -0.4, -0.5, 0.5, 0.0], dtype=torch.float64)
    target, slope = scaled_step(oracle_of(regularizer), point, gradient, pairs_of(6), 0.1, 200)
    torch.testing.assert_close(target, point, rtol=0, atol=1e-12)
    assert abs(slope) < 1e-12


def test_no_data_are_asked_for_and_projections_are_counted():
    regularizer, point, gradient = problem("box", 5)
    oracle = oracle_of(regularizer)
    scaled_step(oracle, point, gradient, pairs_of(6), 1e-6, 50)
    assert oracle.counters.oracle_calls == 0
    assert 2 <= oracle.counters.projections <= 51
