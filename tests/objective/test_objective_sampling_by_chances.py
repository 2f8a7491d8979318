"""Draws by chances: unbiased, each row once, never further than two from what is expected, and a lower bound."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Rows, Shard, sample_by_chances

POPULATION = 9
LEAST = 0.2
"""What a row has at least, of what it would have if all were alike."""


def cumulative(weights, share=1.0 - LEAST):
    """Return the sums of chances that favour `weights` by `share` and are uniform else."""
    weights = np.asarray(weights, dtype=np.float64)
    chances = (1.0 - share) / weights.size + share * weights / weights.sum()
    return torch.from_numpy(chances.cumsum())


def chances_of(sums):
    return np.diff(sums.numpy(), prepend=0.0) / float(sums[-1])


def uneven(population=POPULATION):
    return cumulative(np.arange(1, population + 1) ** 2.0)


@st.composite
def problems(draw):
    """Draw chances that may be as uneven as they like, and a number of draws."""
    exponents = draw(st.lists(st.floats(-30.0, 3.0), min_size=1, max_size=60))
    return cumulative(10.0 ** np.array(exponents)), draw(st.integers(1, 80))


def full_weights(draw, population):
    """Return what each row counts for in the sum over all rows divided by their number; zero if it did not come."""
    weights = np.zeros(population)
    weights[draw.rows.numpy()] = draw.weights.numpy() * population / draw.rows.numel()
    return weights


@given(problems(), st.integers(0, 2**32))
def test_rows_are_distinct_ascending_and_in_range(problem, seed):
    sums, size = problem
    draw = sample_by_chances(np.random.default_rng(seed), sums, size)
    rows = draw.rows.tolist()
    assert draw.rows.dtype == torch.int64
    assert rows == sorted(set(rows))
    assert 0 <= rows[0] <= rows[-1] < sums.numel()
    assert draw.weights.shape == draw.rows.shape
    assert 1 <= len(rows) <= size
    assert bool((draw.weights > 0.0).all())


@given(problems(), st.integers(0, 2**32))
def test_no_row_comes_more_than_two_times_off_what_is_expected(problem, seed):
    sums, size = problem
    draw = sample_by_chances(np.random.default_rng(seed), sums, size)
    expected = size * chances_of(sums)
    times = full_weights(draw, sums.numel()) * expected
    np.testing.assert_allclose(times, np.round(times), rtol=0, atol=1e-6)
    assert round(times.sum()) == size
    assert (np.abs(times - expected) < 2.0 + 1e-6).all()


@given(problems(), st.integers(0, 2**32))
def test_the_covered_share_makes_the_mean_of_positive_numbers_a_lower_bound(problem, seed):
    sums, size = problem
    generator = np.random.default_rng(seed)
    draw = sample_by_chances(generator, sums, size)
    assert 0.0 < draw.covered < 1.0
    rows, weights = draw.rows.numpy(), draw.weights.numpy()
    numbers = [np.exp(spread * generator.standard_normal(sums.numel())) for spread in (0.1, 3.0)]
    # Positive at a single row: where that is the one that counts most, the bound is tight.
    numbers += [np.eye(sums.numel())[row] for row in rows]
    for values in numbers:
        bound = draw.covered * (weights * values[rows]).mean()
        assert bound <= values.mean() * (1.0 + 1e-12)
    heaviest = numbers[2 + int(weights.argmax())]
    tight = draw.covered * (weights * heaviest[rows]).mean() / heaviest.mean()
    assert tight == pytest.approx(1.0, rel=1e-12) or draw.covered == 1.0 - 0.5 / sums.numel()


def test_what_a_row_counts_for_is_one_in_expectation_exactly():
    """Of one draw there are as many outcomes as rows, each with its chance."""
    sums = uneven()
    chances = chances_of(sums)
    seen = {}
    for seed in range(400):
        draw = sample_by_chances(np.random.default_rng(seed), sums, 1)
        (row,) = draw.rows.tolist()
        seen.setdefault(row, full_weights(draw, POPULATION)[row])
    assert sorted(seen) == list(range(POPULATION))
    for row, weight in seen.items():
        assert weight * chances[row] == pytest.approx(1.0, rel=1e-12)


def test_each_part_of_the_chances_is_drawn_from_once():
    """Written once more in numpy: draw `k` falls into part `k` of equal parts, and counts `1 / (m q)` of the draws."""
    sums, size = uneven(), 6
    chances = chances_of(sums)
    for seed in range(50):
        uniform = np.random.default_rng(seed).random(size)
        times = np.zeros(POPULATION)
        for part, inside in enumerate(uniform):
            times[int(np.sum(sums.numpy() <= (part + inside) / size * float(sums[-1])))] += 1
        draw = sample_by_chances(np.random.default_rng(seed), sums, size)
        np.testing.assert_allclose(full_weights(draw, POPULATION), times / (size * chances), rtol=1e-12)


@pytest.mark.parametrize("size", [1, 4, 30])
def test_the_mean_weight_of_each_row_over_many_draws_is_one(size):
    sums, generator, draws = uneven(), np.random.default_rng(0), 4000
    weights = np.array([full_weights(sample_by_chances(generator, sums, size), POPULATION) for _ in range(draws)])
    error = weights.std(axis=0, ddof=1) / math.sqrt(draws)
    assert (np.abs(weights.mean(axis=0) - 1.0) <= 4.0 * error + 1e-12).all()
    # A row that comes at most two times too often counts for that much more at most.
    assert (weights <= 1.0 + 2.0 / (size * chances_of(sums))).all()


def test_one_row_with_all_the_weight_comes_about_as_often_as_its_chance_says():
    weights = np.zeros(1000)
    weights[417] = 1.0
    sums, generator = cumulative(weights), np.random.default_rng(1)
    for _ in range(50):
        draw = sample_by_chances(generator, sums, 100)
        counts = full_weights(draw, 1000)
        # 80 of 100 draws, which are one look; all others are light, and count much.
        assert abs(counts[417] * 100 * chances_of(sums)[417] - 80.02) < 2.0
        assert 18 <= draw.rows.numel() <= 23
        light = np.delete(counts, 417)
        np.testing.assert_allclose(light[light > 0], 1000 / (100 * LEAST), rtol=1e-9)


def test_a_single_row_is_always_drawn_and_counts_for_one():
    for size in (1, 5):
        draw = sample_by_chances(np.random.default_rng(2), torch.tensor([0.7], dtype=torch.float64), size)
        assert draw.rows.tolist() == [0]
        assert draw.weights.tolist() == pytest.approx([1.0])
        assert draw.covered == 0.5


def test_alike_chances_are_stratified_draws_that_count_alike():
    sums = torch.arange(1, 101, dtype=torch.float64) / 100.0
    draw = sample_by_chances(np.random.default_rng(3), sums, 20)
    assert (draw.rows // 5).tolist() == list(range(20))
    np.testing.assert_allclose(draw.weights.numpy(), 1.0, rtol=1e-12)
    assert draw.covered == pytest.approx(0.2)


class Ends:
    """A generator whose numbers are all the same."""

    def __init__(self, number):
        self.number = number

    def random(self, size):
        return np.full(size, self.number)


@pytest.mark.parametrize("number", [0.0, float(np.nextafter(1.0, 0.0))])
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_numbers_at_the_ends_of_a_part_stay_in_range(number, size):
    sums = uneven() * (1.0 + 1e-16)
    draw = sample_by_chances(Ends(number), sums, size)
    assert draw.rows[0] >= 0
    assert draw.rows[-1] < POPULATION
    assert bool(draw.weights.isfinite().all())
    assert (draw.rows[-1] == POPULATION - 1) if number else (draw.rows[0] == 0)


def test_the_same_seed_draws_the_same_and_another_does_not():
    sums = uneven(200)
    one, other, third = (sample_by_chances(np.random.default_rng(seed), sums, 20) for seed in (4, 4, 5))
    assert torch.equal(one.rows, other.rows)
    assert torch.equal(one.weights, other.weights)
    assert one.covered == other.covered
    assert not torch.equal(one.rows, third.rows)


class TestThroughTheOracle:
    """What an oracle makes of such a draw."""

    @pytest.fixture
    def oracle(self, composite, random_points):
        def build(shard=None, dtype=torch.float64):
            form = composite("inner")
            return CompositeOracle(form, 7, random_points(0, form.dimension, dtype=dtype), shard or Shard())

        return build

    @pytest.mark.parametrize("beyond", [0, 1, 1000])
    def test_a_size_not_below_the_number_of_rows_is_the_exact_full_set(self, oracle, beyond):
        found = oracle()
        before = found.state_dict()["generator"]
        rows = found.draw_by_chances(uneven(found.samples), found.samples + beyond)
        assert rows == found.draw()
        assert (rows.samples, rows.covered, rows.sample_weights) == (slice(None), 1.0, None)
        assert found.state_dict()["generator"] == before

    def test_all_but_one_draw_is_never_taken_for_the_full_set(self, oracle):
        found = oracle()
        sums = torch.arange(1, found.samples + 1, dtype=torch.float64) / found.samples
        for _ in range(20):
            assert found.draw_by_chances(sums, found.samples - 1).covered < 1.0

    def test_weights_have_the_precision_of_the_parameters(self, oracle):
        rows = oracle(dtype=torch.float32).draw_by_chances(uneven(oracle().samples), 3)
        assert rows.sample_weights.dtype == torch.float32

    @pytest.mark.parametrize("parts", [2, 3, 5])
    @pytest.mark.parametrize("size", [1, 2, 7])
    def test_the_parts_of_processes_add_up_to_the_draw_of_one(self, oracle, parts, size):
        alone, several = oracle(), [oracle(Shard(rank, parts)) for rank in range(parts)]
        sums = uneven(alone.samples)
        for _ in range(5):
            whole = alone.draw_by_chances(sums, size)
            drawn = [one.draw_by_chances(sums, size) for one in several]
            assert torch.equal(torch.cat([part.samples for part in drawn]), whole.samples)
            assert torch.equal(torch.cat([part.sample_weights for part in drawn]), whole.sample_weights)
            assert sum(part.sample_share for part in drawn) == pytest.approx(1.0)
            for part in drawn:
                assert part.covered == whole.covered
                assert part.drawn_samples == whole.drawn_samples == whole.samples.numel()
                assert part.drawn_constraints == 0
                assert part.sample_share * whole.samples.numel() == pytest.approx(part.samples.numel())

    @pytest.mark.parametrize("parts", [2, 3])
    def test_shares_of_weighted_means_add_up_and_are_counted(self, oracle, random_points, parts):
        alone, several = oracle(), [oracle(Shard(rank, parts)) for rank in range(parts)]
        sums, points = uneven(alone.samples), random_points(1, 2, alone.dimension)
        shift = torch.zeros((), dtype=torch.float64)
        whole = alone.draw_by_chances(sums, 7)
        expected = alone.estimate(points, whole, shift)
        total = torch.zeros_like(expected.inner_jacobian)
        floor = torch.zeros_like(expected.inner_floor)
        for one in several:
            rows = one.draw_by_chances(sums, 7)
            found = one.estimate(points, rows, shift)
            total += rows.sample_share * found.inner_jacobian
            floor += rows.sample_share * found.inner_floor
        torch.testing.assert_close(total, expected.inner_jacobian)
        torch.testing.assert_close(floor, expected.inner_floor)
        distinct = whole.samples.numel()
        assert alone.counters.sample_calls == 2 * distinct
        assert sum(one.counters.sample_calls for one in several) == 2 * distinct
        assert all(one.settled and one.totals.sample_calls == 2 * distinct for one in several)


def test_other_rows_are_not_said_to_have_these_weights():
    rows = Rows(torch.arange(3), sample_weights=torch.ones(3), drawn_samples=3)
    assert rows._replace(samples=torch.arange(2)).sample_weights is None
    assert rows._replace(covered=0.5).sample_weights is rows.sample_weights
