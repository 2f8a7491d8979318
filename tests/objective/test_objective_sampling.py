"""Draws of indices: ranges, repetitions and uniformity."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from drobench.objective.sampling import Rows, Shard, index_length, sample_indices, sample_within

DRAWS = 6000


def p_value(counts):
    """Return the chi-square probability of counts at least this uneven."""
    return scipy.stats.chisquare(counts).pvalue


@st.composite
def populations(draw):
    """Draw the size of a population and a number of indices that it has."""
    population = draw(st.integers(1, 200))
    return population, draw(st.integers(1, population))


@given(populations(), st.integers(0, 2**32))
def test_without_replacement_indices_are_distinct_and_in_range(sizes, seed):
    population, size = sizes
    drawn = sample_indices(np.random.default_rng(seed), population, size, replacement=False)
    assert drawn.dtype == torch.int64
    assert drawn.shape == (size,)
    assert drawn.unique().numel() == size
    assert drawn.min() >= 0
    assert drawn.max() < population


def test_with_replacement_indices_repeat_and_stay_in_range():
    drawn = sample_indices(np.random.default_rng(0), 10, 1000, replacement=True)
    assert drawn.dtype == torch.int64
    assert drawn.unique().tolist() == list(range(10))


@given(st.integers(1, 1000), st.integers(1, 40))
def test_the_parts_of_a_draw_are_consecutive_and_differ_by_at_most_one(size, parts):
    bounds = [Shard(rank, parts).bounds(size) for rank in range(parts)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == size
    assert all(before[1] == after[0] for before, after in pairwise(bounds))
    lengths = [last - first for first, last in bounds]
    assert max(lengths) - min(lengths) <= 1


def test_every_subset_is_equally_likely_without_replacement():
    generator = np.random.default_rng(1)
    counts = dict.fromkeys(combinations(range(6), 2), 0)
    for _ in range(DRAWS):
        counts[tuple(sorted(sample_indices(generator, 6, 2, replacement=False).tolist()))] += 1
    assert p_value(list(counts.values())) > 0.01


def test_every_sequence_is_equally_likely_with_replacement():
    generator = np.random.default_rng(2)
    counts = dict.fromkeys(product(range(5), repeat=2), 0)
    for _ in range(DRAWS):
        counts[tuple(sample_indices(generator, 5, 2, replacement=True).tolist())] += 1
    assert p_value(list(counts.values())) > 0.01


@pytest.mark.parametrize("size", [50, 4000])
def test_large_populations_are_covered_evenly(size):
    # numpy changes its method with the share that is drawn.
    generator = np.random.default_rng(3)
    population, bins, repetitions = 20_000, 20, 400_000 // size // 10
    counts = np.zeros(bins)
    for _ in range(repetitions):
        drawn = sample_indices(generator, population, size, replacement=False)
        assert drawn.unique().numel() == size
        counts += np.bincount(drawn.numpy() * bins // population, minlength=bins)
    # Without replacement the counts vary less than independent ones, by this factor.
    factor = (population - size) / (population - 1)
    expected = counts.sum() / bins
    statistic = ((counts - expected) ** 2 / expected).sum() / factor
    assert 0.005 < scipy.stats.chi2.sf(statistic, bins - 1) < 0.995


def test_the_same_seed_draws_the_same():
    for replacement in (False, True):
        one, other = (sample_indices(np.random.default_rng(4), 100, 10, replacement) for _ in range(2))
        assert torch.equal(one, other)
        assert not torch.equal(one, sample_indices(np.random.default_rng(5), 100, 10, replacement))


@pytest.mark.parametrize(
    "index",
    [slice(None), slice(3, 8), slice(3, 800), slice(0, 0), slice(1, None, 3), torch.tensor([1, 1, 4])],
    ids=str,
)
def test_the_length_of_an_index_is_the_number_of_rows_it_selects(index):
    assert index_length(index, 10) == torch.arange(10)[index].numel()


@given(st.lists(populations(), min_size=1, max_size=8), st.booleans(), st.integers(0, 2**32))
def test_draws_within_groups_are_in_range_and_one_group_after_the_other(groups, replacement, seed):
    # A group that nobody draws from is among them.
    sizes, counts = np.array([*groups, (5, 0)]).T
    drawn = sample_within(np.random.default_rng(seed), sizes, counts, replacement)
    parts = np.split(drawn, np.cumsum(counts)[:-1])
    for part, size, count in zip(parts, sizes, counts, strict=True):
        assert part.size == count
        assert replacement or np.unique(part).size == count
        assert ((part >= 0) & (part < size)).all()


def test_within_a_group_every_subset_is_equally_likely():
    generator = np.random.default_rng(4)
    counts = dict.fromkeys(combinations(range(5), 3), 0)
    for _ in range(DRAWS):
        drawn = sample_within(generator, np.array([3, 5, 2]), np.array([2, 3, 2]), replacement=False)
        counts[tuple(sorted(drawn[2:5].tolist()))] += 1
        assert sorted(drawn[5:].tolist()) == [0, 1]
    assert p_value(list(counts.values())) > 1e-3


def test_with_replacement_every_sequence_within_a_group_is_equally_likely():
    generator = np.random.default_rng(5)
    counts = dict.fromkeys(product(range(3), repeat=2), 0)
    for _ in range(DRAWS):
        drawn = sample_within(generator, np.array([1, 3]), np.array([2, 2]), replacement=True)
        assert drawn[:2].tolist() == [0, 0]
        counts[tuple(drawn[2:].tolist())] += 1
    assert p_value(list(counts.values())) > 1e-3


class TestReplacedRows:
    ROWS = Rows(torch.arange(3), torch.arange(2), drawn_samples=6, drawn_constraints=4)

    def test_other_rows_are_not_said_to_be_as_many(self):
        changed = self.ROWS._replace(samples=torch.arange(5))
        assert (changed.drawn_samples, changed.drawn_constraints) == (None, 4)
        changed = self.ROWS._replace(constraints=None)
        assert (changed.drawn_samples, changed.drawn_constraints) == (6, None)

    def test_what_is_said_of_them_stays(self):
        changed = self.ROWS._replace(samples=None, drawn_samples=0, covered=0.5)
        assert isinstance(changed, Rows)
        assert (changed.drawn_samples, changed.drawn_constraints, changed.covered) == (0, 4, 0.5)
        assert self.ROWS._replace(covered=0.5).drawn_samples == 6
