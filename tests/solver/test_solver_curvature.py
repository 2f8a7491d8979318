"""The largest curvature against the exact Hessian."""

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Rows
from drobench.solver.curvature import largest_curvature


def exact_curvature(value, point: torch.Tensor) -> float:
    # Reverse over reverse: the forward mode of `torch.func.hessian` loads a part of torch that warns.
    hessian = torch.func.jacrev(torch.func.grad(value))(point)
    return float(torch.linalg.eigvalsh(hessian).abs().max())


def places(dimension: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(11)
    away = torch.randn(dimension, generator=generator, dtype=torch.float64)
    return [torch.zeros(dimension, dtype=torch.float64), away]


class Recording(CompositeOracle):
    """Remembers the rows of its only draw."""

    drawn: Rows

    def draw(self, samples=None, constraints=None, *, replacement=False) -> Rows:
        assert not hasattr(self, "drawn")
        self.drawn = super().draw(samples, constraints, replacement=replacement)
        return self.drawn


@pytest.mark.parametrize("m", [50, 500])
@pytest.mark.parametrize("with_h", [False, True], ids=["kl", "kl_and_h"])
@pytest.mark.parametrize("gamma", [1.0, 0.2])
def test_the_curvature_is_that_of_the_exact_hessian(
    signed_rows, logistic, logistic_value, communicator, gamma, with_h, m
):
    for place in [0, 1]:
        for seed in range(5):
            rows, point = signed_rows(m, 8, seed), places(8)[place]
            oracle = Recording(logistic(rows, gamma, with_h), seed, point)
            found = largest_curvature(oracle, communicator, point)
            exact = exact_curvature(logistic_value(rows[oracle.drawn.samples], gamma, with_h), point)
            assert found == pytest.approx(exact, rel=0.05), f"seed {seed}"


@pytest.mark.parametrize("place", [0, 1], ids=["at_zero", "away"])
@pytest.mark.parametrize("gamma", [1.0, 0.2])
def test_single_precision_is_enough(signed_rows, logistic, logistic_value, communicator, gamma, place):
    for seed in range(5):
        rows, point = signed_rows(500, 8, seed), places(8)[place]
        oracle = Recording(logistic(rows.float(), gamma), seed, point.float())
        found = largest_curvature(oracle, communicator, point.float())
        exact = exact_curvature(logistic_value(rows[oracle.drawn.samples], gamma), point)
        assert found == pytest.approx(exact, rel=0.1), f"seed {seed}"


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


@pytest.mark.parametrize(("m", "rows"), [(3, 3), (50, 50), (300, 50), (4000, 200), (20_000, 500)])
def test_large_data_is_represented_by_a_share_of_its_rows(signed_rows, logistic, communicator, m, rows):
    start = torch.zeros(4, dtype=torch.float64)
    oracle = Recording(logistic(signed_rows(m, 4, 0), 0.5), 0, start)
    largest_curvature(oracle, communicator, start)
    numbers = torch.arange(m)[oracle.drawn.samples]
    assert numbers.unique().numel() == numbers.numel() == rows
    gradients, rest = divmod(oracle.counters.sample_calls, rows)
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
