"""The largest curvature against the exact Hessian."""

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.composite import FunctionComposite
from drobench.objective.oracle import CompositeOracle
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.solver.step_sizes import MOST_ROWS, largest_curvature


def exact_curvature(value, point: torch.Tensor) -> float:
    # Reverse over reverse: the forward mode of `torch.func.hessian` loads a part of torch that warns.
    hessian = torch.func.jacrev(torch.func.grad(value))(point)
    return float(torch.linalg.eigvalsh(hessian).abs().max())


def places(dimension: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(11)
    away = torch.randn(dimension, generator=generator, dtype=torch.float64)
    return [torch.zeros(dimension, dtype=torch.float64), away]


@pytest.mark.parametrize("place", [0, 1], ids=["at_zero", "away"])
@pytest.mark.parametrize("with_h", [False, True], ids=["kl", "kl_and_h"])
@pytest.mark.parametrize("gamma", [1.0, 0.2])
def test_the_curvature_is_that_of_the_exact_hessian(
    signed_rows, logistic, logistic_value, communicator, gamma, with_h, place
):
    for seed in range(12):
        rows = signed_rows(300, 8, seed)
        point = places(8)[place]
        oracle = CompositeOracle(logistic(rows, gamma, with_h), seed, point)
        exact = exact_curvature(logistic_value(rows, gamma, with_h), point)
        assert largest_curvature(oracle, communicator, point) == pytest.approx(exact, rel=0.05), f"seed {seed}"


@pytest.mark.parametrize("place", [0, 1], ids=["at_zero", "away"])
@pytest.mark.parametrize("gamma", [1.0, 0.2])
def test_single_precision_is_enough(signed_rows, logistic, logistic_value, communicator, gamma, place):
    for seed in range(12):
        rows = signed_rows(300, 8, seed)
        point = places(8)[place]
        oracle = CompositeOracle(logistic(rows.float(), gamma), seed, point.float())
        exact = exact_curvature(logistic_value(rows, gamma), point)
        assert largest_curvature(oracle, communicator, point.float()) == pytest.approx(exact, rel=0.1), f"seed {seed}"


def quadratic(scales: list[float], regularizer=None) -> FunctionComposite:
    """Return `mean over 7 rows of sum_k scale_k x_k^2 / 2 + row x_0`, whose Hessian is the diagonal of scales."""
    diagonal = torch.tensor(scales, dtype=torch.float64)

    def loss(point, numbers):
        return 0.5 * (diagonal * point.square()).sum() + numbers * point[0]

    return FunctionComposite(len(scales), 7, 0, regularizer or Zero(), loss=loss)


def test_the_regularizer_has_no_part_in_it(communicator):
    start = torch.zeros(2, dtype=torch.float64)
    oracle = CompositeOracle(quadratic([3.0, 3.0], ElasticNet(l2=100.0)), 0, start)
    assert largest_curvature(oracle, communicator, start) == pytest.approx(3.0, rel=1e-6)


def test_a_curvature_may_be_negative_and_counts_by_magnitude(communicator):
    start = torch.zeros(2, dtype=torch.float64)
    oracle = CompositeOracle(quadratic([0.5, -4.0]), 0, start)
    assert largest_curvature(oracle, communicator, start) == pytest.approx(4.0, rel=0.05)


def test_every_gradient_is_counted(communicator):
    # With a multiple of the identity the second product repeats the first: three gradients on seven rows.
    start = torch.zeros(3, dtype=torch.float64)
    oracle = CompositeOracle(quadratic([2.0, 2.0, 2.0]), 0, start)
    largest_curvature(oracle, communicator, start)
    assert oracle.counters.sample_calls in (2 * 7, 3 * 7)
    assert oracle.counters.loss_gradients == oracle.counters.sample_calls


@pytest.mark.parametrize("m", [120, MOST_ROWS + 300])
def test_the_rows_are_all_or_five_hundred(signed_rows, logistic, communicator, m):
    start = torch.zeros(5, dtype=torch.float64)
    oracle = CompositeOracle(logistic(signed_rows(m, 5, 0), 0.5), 0, start)
    largest_curvature(oracle, communicator, start)
    gradients, rest = divmod(oracle.counters.sample_calls, min(m, 500))
    assert rest == 0
    assert 2 <= gradients <= 21


def test_the_same_seed_gives_the_same_curvature(signed_rows, logistic, communicator):
    start = torch.zeros(5, dtype=torch.float64)
    composite = logistic(signed_rows(800, 5, 0), 0.5)
    found = [largest_curvature(CompositeOracle(composite, seed, start), communicator, start) for seed in (1, 1, 2)]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_without_curvature_the_user_is_asked_for_a_step_size(communicator):
    start = torch.zeros(3, dtype=torch.float64)
    oracle = CompositeOracle(quadratic([0.0, 0.0, 0.0]), 0, start)
    with pytest.raises(DrobenchError, match=r"set `solver\.step_size`"):
        largest_curvature(oracle, communicator, start)


def test_a_curvature_that_is_not_finite_is_refused(communicator):
    start = torch.zeros(2, dtype=torch.float64)
    oracle = CompositeOracle(quadratic([torch.nan, 1.0]), 0, start)
    with pytest.raises(DrobenchError, match=r"set `solver\.step_size`"):
        largest_curvature(oracle, communicator, start)
