"""The recursive estimates: exact on everything, unbiased on draws, and the same at every shift."""

from dataclasses import replace
from itertools import combinations, product

import pytest
import torch

from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Rows
from drobench.solver.estimators import Estimates, advance, direction, refresh, sample

TRACKED = ("inner_value", "inner_jacobian", "loss_gradient")


def points_of(dimension: int, seed: int, spread: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first = spread * torch.randn(dimension, generator=generator, dtype=torch.float64)
    return first, first + spread * torch.randn(dimension, generator=generator, dtype=torch.float64)


def chosen(numbers: tuple[int, ...]) -> Rows:
    # `covered` only serves the guard.
    return Rows(torch.tensor(numbers), covered=0.0)


@pytest.fixture
def small(signed_rows, logistic):
    """Return an oracle for `m` samples in three dimensions, with `h`."""

    def make(m: int, gamma: float = 0.5) -> CompositeOracle:
        return CompositeOracle(
            logistic(signed_rows(m, 3, 1), gamma, with_h=True), 0, torch.zeros(3, dtype=torch.float64)
        )

    return make


def increments(oracle, communicator, before: Estimates, point, previous, rows: Rows) -> dict[str, torch.Tensor]:
    moved, _ = advance(before, oracle, communicator, point, previous, rows)
    assert moved.shift is before.shift
    return {name: getattr(moved, name) - getattr(before, name) for name in TRACKED}


def mean_increments(oracle, communicator, draws: list[tuple[int, ...]]) -> tuple[dict, dict]:
    """Return the mean increment over `draws`, and the one of the full batch."""
    previous, point = points_of(3, 7)
    before = refresh(oracle, communicator, previous, oracle.draw())
    each = [increments(oracle, communicator, before, point, previous, chosen(draw)) for draw in draws]
    full = increments(oracle, communicator, before, point, previous, oracle.draw())
    return {name: torch.stack([one[name] for one in each]).mean(0) for name in TRACKED}, full


@pytest.mark.parametrize(("m", "size"), [(6, 1), (6, 3), (7, 2), (5, 4)])
def test_increments_without_replacement_are_unbiased(small, communicator, m, size):
    mean, full = mean_increments(small(m), communicator, list(combinations(range(m), size)))
    for name in TRACKED:
        assert full[name].abs().max() > 1e-3
        torch.testing.assert_close(mean[name], full[name], rtol=0, atol=1e-14)


@pytest.mark.parametrize(("m", "size"), [(4, 2), (3, 3), (2, 5)])
def test_increments_with_replacement_are_unbiased(small, communicator, m, size):
    mean, full = mean_increments(small(m), communicator, list(product(range(m), repeat=size)))
    for name in TRACKED:
        assert full[name].abs().max() > 1e-3
        torch.testing.assert_close(mean[name], full[name], rtol=0, atol=1e-14)


def test_one_draw_alone_is_not_the_full_increment(small, communicator):
    mean, full = mean_increments(small(6), communicator, [(0, 1, 2)])
    assert all((mean[name] - full[name]).abs().max() > 1e-3 for name in TRACKED)


@pytest.mark.parametrize("with_h", [False, True])
@pytest.mark.parametrize("gamma", [2.0, 0.2])
def test_a_refresh_on_everything_gives_the_exact_gradient(
    signed_rows, logistic, logistic_value, communicator, gamma, with_h
):
    rows = signed_rows(40, 3, 2)
    point, _ = points_of(3, 3)
    oracle = CompositeOracle(logistic(rows, gamma, with_h), 0, point)
    estimates = refresh(oracle, communicator, point, oracle.draw())
    value = logistic_value(rows, gamma, with_h)
    torch.testing.assert_close(direction(estimates, oracle), torch.func.grad(value)(point), rtol=0, atol=1e-14)
    measured = oracle.value(point, estimates.inner_value, estimates.loss_value, estimates.shift)
    torch.testing.assert_close(measured, value(point), rtol=0, atol=1e-14)


def test_full_batches_telescope_to_the_exact_gradient(small, communicator):
    oracle = small(20)
    previous, point = points_of(3, 4)
    estimates = refresh(oracle, communicator, previous, oracle.draw())
    generator = torch.Generator().manual_seed(5)
    for _ in range(25):
        estimates, sound = advance(estimates, oracle, communicator, point, previous, oracle.draw())
        assert sound
        exact = refresh(oracle, communicator, point, oracle.draw())
        torch.testing.assert_close(direction(estimates, oracle), direction(exact, oracle), rtol=0, atol=1e-12)
        previous, point = point, point + 0.2 * torch.randn(3, generator=generator, dtype=torch.float64)


def test_an_advance_costs_two_calls_per_row_and_a_refresh_one(small, communicator):
    oracle = small(20)
    previous, point = points_of(3, 4)
    estimates = refresh(oracle, communicator, previous, oracle.draw())
    assert oracle.counters.sample_calls == 20
    advance(estimates, oracle, communicator, point, previous, oracle.draw(3))
    assert oracle.counters.sample_calls == 20 + 2 * 3
    assert oracle.counters.inner_values == oracle.counters.inner_jacobians == oracle.counters.loss_gradients == 26


@pytest.mark.parametrize("offset", [-3.0, 0.7, 40.0])
def test_the_direction_does_not_depend_on_the_shift(small, communicator, offset):
    oracle = small(30)
    previous, point = points_of(3, 6)
    at_best = refresh(oracle, communicator, previous, oracle.draw())
    elsewhere = sample(oracle, communicator, previous, oracle.draw(), at_best.shift + offset)
    assert float(elsewhere.shift) == pytest.approx(float(at_best.shift) + offset, abs=1e-14)
    rows = oracle.draw(5)
    moved, sound = advance(at_best, oracle, communicator, point, previous, rows)
    moved_elsewhere, sound_elsewhere = advance(elsewhere, oracle, communicator, point, previous, rows)
    assert sound
    assert sound_elsewhere
    assert (moved.inner_value / moved_elsewhere.inner_value).log().abs() > 1.0
    torch.testing.assert_close(direction(moved, oracle), direction(moved_elsewhere, oracle), rtol=0, atol=1e-13)


def test_rescaling_to_another_shift_and_back_changes_nothing(small, communicator):
    oracle = small(30)
    point, _ = points_of(3, 6)
    estimates = refresh(oracle, communicator, point, oracle.draw())
    higher = estimates.shift + 2.0
    there = oracle.rescale(estimates.inner_jacobian, estimates.shift, higher)
    measured = sample(oracle, communicator, point, oracle.draw(), higher)
    torch.testing.assert_close(there, measured.inner_jacobian, rtol=1e-13, atol=0)
    back = oracle.rescale(there, higher, estimates.shift)
    torch.testing.assert_close(back, estimates.inner_jacobian, rtol=1e-13, atol=0)


@pytest.mark.parametrize("which", ["point", "previous"])
def test_an_exponential_that_would_overflow_raises_the_shift(signed_rows, logistic, communicator, which):
    gamma = 1e-3
    oracle = CompositeOracle(logistic(signed_rows(12, 3, 1), gamma), 0, torch.zeros(3, dtype=torch.float64))
    near, far = torch.zeros(3, dtype=torch.float64), torch.tensor([-8.0, 4.0, 2.0], dtype=torch.float64)
    point, previous = (far, near) if which == "point" else (near, far)
    # Estimates at the near point's shift, at which the losses of the far point have exponents beyond 500.
    low = refresh(oracle, communicator, near, oracle.draw())
    high = refresh(oracle, communicator, far, oracle.draw())
    assert float(high.shift - low.shift) > 500 * gamma
    before = low if which == "point" else replace(high, shift=low.shift)
    moved, _ = advance(before, oracle, communicator, point, previous, oracle.draw())
    assert moved.shift > low.shift
    assert moved.inner_value.isfinite().all()
    assert moved.inner_jacobian.isfinite().all()
    if which == "point":
        # A full batch telescopes, so the direction must be the exact one at the far point.
        torch.testing.assert_close(direction(moved, oracle), direction(high, oracle), rtol=1e-12, atol=1e-12)


def test_an_inner_value_below_what_the_rows_prove_is_not_sound(small, communicator):
    oracle = small(30)
    previous, point = points_of(3, 8)
    before = refresh(oracle, communicator, previous, oracle.draw())
    rows = oracle.draw(10)
    moved, sound = advance(before, oracle, communicator, point, previous, rows)
    assert sound
    # All 30 terms are positive, so their mean is at least a third of the mean over 10 of them.
    measured = oracle.estimate(point[None], rows, before.shift).inner_value[0]
    excess = moved.inner_value - measured / 3.0
    slightly_above = replace(before, inner_value=before.inner_value - 0.999 * excess)
    slightly_below = replace(before, inner_value=before.inner_value - 1.001 * excess)
    assert advance(slightly_above, oracle, communicator, point, previous, rows)[1]
    assert not advance(slightly_below, oracle, communicator, point, previous, rows)[1]


@pytest.mark.parametrize("size", [10, 30])
def test_an_estimate_that_is_not_finite_is_not_sound(small, communicator, size):
    oracle = small(30)
    previous, point = points_of(3, 8)
    before = refresh(oracle, communicator, previous, oracle.draw())
    broken = replace(before, inner_value=before.inner_value * torch.nan)
    assert not advance(broken, oracle, communicator, point, previous, oracle.draw(size))[1]


def test_a_full_batch_that_cancels_to_zero_is_not_sound(logistic, communicator):
    # The loss falls from ln 2 to 0.13, so exp((f - c) / gamma) from 1 to 1e-25, which 1 + (1e-25 - 1) rounds to 0.
    oracle = CompositeOracle(
        logistic(torch.ones(1, 1, dtype=torch.float64), 0.01), 0, torch.zeros(1, dtype=torch.float64)
    )
    previous, point = torch.zeros(1, dtype=torch.float64), torch.full((1,), 2.0, dtype=torch.float64)
    before = refresh(oracle, communicator, previous, oracle.draw())
    moved, sound = advance(before, oracle, communicator, point, previous, oracle.draw())
    assert not sound or bool(direction(moved, oracle).isfinite().all())


def test_advance_changes_no_argument(small, communicator):
    oracle = small(30)
    previous, point = points_of(3, 9)
    before = refresh(oracle, communicator, previous, oracle.draw())
    copies = {name: getattr(before, name).clone() for name in (*TRACKED, "loss_value", "shift")}
    point_copy, previous_copy = point.clone(), previous.clone()
    advance(before, oracle, communicator, point, previous, oracle.draw(4))
    assert all(torch.equal(getattr(before, name), copy) for name, copy in copies.items())
    assert torch.equal(point, point_copy)
    assert torch.equal(previous, previous_copy)
