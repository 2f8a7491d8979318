"""Growth exponents: laws that are known are found, with intervals that hold what they promise."""

import math

import numpy as np
import pytest

from benchmarks.studies.table1.growth import along_accuracy, along_size, fit, logarithmic_rms, sort

SIZES = (64, 128, 256, 512)
ACCURACIES = (1e-1, 1e-2, 1e-3, 1e-4)


def power_law(size=0.5, accuracy=1.0, noise=0.0, seeds=5, seed=0):
    """Costs `7 m^size eps^-accuracy`; noise is one factor for each seed of a size, and a smaller one for each cell."""
    generator = np.random.default_rng(seed)
    costs = {}
    for m in SIZES:
        common = generator.standard_normal(seeds)
        for eps in ACCURACIES:
            factors = np.exp(noise * (common + 0.3 * generator.standard_normal(seeds)))
            costs[m, eps] = 7.0 * m**size * eps**-accuracy * factors
    return costs


@pytest.mark.parametrize(("size", "accuracy"), [(0.5, 1.0), (1.0, 0.0), (1.5, 0.75), (0.0, 1.5)])
def test_exact_power_laws_are_found(size, accuracy):
    law = fit(sort(power_law(size, accuracy)).complete)
    assert (law.size.value, law.accuracy.value) == pytest.approx((size, accuracy), abs=1e-10)
    assert (law.size.low, law.size.high) == pytest.approx((size, size), abs=1e-10)
    assert law.rms == pytest.approx(0.0, abs=1e-10)
    assert law.cells == len(SIZES) * len(ACCURACIES)


def test_slices_have_the_exponents_of_the_whole():
    cells = sort(power_law(0.5, 0.75)).complete
    by_size, by_accuracy = along_size(cells), along_accuracy(cells)
    assert list(by_size) == list(ACCURACIES)
    assert list(by_accuracy) == [float(size) for size in SIZES]
    assert [law.size.value for law in by_size.values()] == pytest.approx([0.5] * 4)
    assert [law.accuracy.value for law in by_accuracy.values()] == pytest.approx([0.75] * 4)
    assert all(law.accuracy is None for law in by_size.values())
    assert all(law.size is None for law in by_accuracy.values())


@pytest.mark.convergence
def test_intervals_cover_the_truth_as_often_as_they_say():
    """At least 95 %, within what 150 trials can tell; and not by being useless: the median half width is small."""
    hits, widths = np.zeros(2), []
    for trial in range(150):
        law = fit(sort(power_law(0.5, 1.0, noise=0.3, seed=trial)).complete)
        hits += [law.size.low <= 0.5 <= law.size.high, law.accuracy.low <= 1.0 <= law.accuracy.high]
        widths.append(law.size.high - law.size.low)
    assert (hits / 150 >= 0.92).all()
    # Exact standard error of the slope: noise / sqrt(5 sum (ln m - mean)^2), ln m spaced by ln 2, four sizes.
    exact = 0.3 * math.sqrt(1 + 0.09 / 4) / math.sqrt(5 * 5 * math.log(2) ** 2)
    assert 1.96 < np.median(widths) / 2 / exact < 3.5


def test_seeds_of_one_size_are_drawn_together():
    """A factor that all accuracies of a seed share says nothing about the exponent of the accuracy."""
    generator = np.random.default_rng(3)
    factors = {m: np.exp(generator.standard_normal(5)) for m in SIZES}
    cells = {(m, eps): m * eps**-0.5 * factors[m] for m in SIZES for eps in ACCURACIES}
    law = fit(cells)
    assert law.accuracy.value == pytest.approx(0.5)
    assert law.accuracy.high - law.accuracy.low < 1e-10
    assert law.size.high - law.size.low > 0.1


def test_cells_that_a_seed_missed_are_listed_and_not_fitted():
    costs = power_law(0.5, 1.0)
    costs[512, 1e-4] = np.array([1.0, 1.0, 1.0, math.inf, 1.0])
    costs[64, 1e-1] = np.array([0.0, 5.0, 5.0, 5.0, 5.0])
    costs[128, 1e-2] = np.array([1.0, math.nan, 1.0, math.inf, 1.0])
    found = sort(costs)
    assert found.unknown == ((128, 1e-2),)
    assert found.censored == {(512, 1e-4): 4}
    assert found.trivial == ((64, 1e-1),)
    assert len(found.complete) == 13
    assert fit(found.complete).size.value == pytest.approx(0.5)


def test_too_few_cells_give_no_law():
    cells = sort(power_law()).complete
    two = {cell: costs for cell, costs in cells.items() if cell[1] == 1e-2 and cell[0] < 200}
    assert len(two) == 2
    assert fit(two) is None
    assert fit({}) is None


def test_one_seed_has_an_estimate_and_no_interval():
    law = fit(sort(power_law(0.5, 1.0, seeds=1)).complete)
    assert law.size.value == pytest.approx(0.5)
    assert math.isnan(law.size.low)


def test_a_logarithmic_law_is_told_from_a_power_law():
    logarithmic = {(64, eps): np.full(5, 100.0 + 40.0 * math.log(1 / eps)) for eps in ACCURACIES}
    power = {(64, eps): np.full(5, 100.0 * eps**-0.75) for eps in ACCURACIES}
    assert logarithmic_rms(logarithmic) < 1e-6
    assert fit(logarithmic).rms > 0.02
    assert fit(power).rms < 1e-10
    assert logarithmic_rms(power) > 0.1
    assert logarithmic_rms(sort(power_law()).complete) is None
