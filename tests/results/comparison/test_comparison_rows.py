"""The values of a row."""

import math

import numpy
import pytest

from drobench.results.comparison.metrics import METRICS
from drobench.results.comparison.rows import Comparison, Row, Summary
from drobench.results.comparison.statistics import bootstrap_interval, bootstrap_intervals


def test_many_samples_at_once_are_the_same_as_one_by_one():
    samples = numpy.random.default_rng(2).normal(size=(5, 7))
    samples[1, 3] = math.inf
    samples[2] = 4.0
    assert bootstrap_intervals(samples).tolist() == [list(bootstrap_interval(sample)) for sample in samples]
    mixed = [[1.0, 2.0, 4.0], [5.0], [1.0, 3.0, 9.0], [2.0, math.inf]]
    assert Summary.of_many(mixed) == [Summary.of(sample) for sample in mixed]
    assert Summary.of_many(mixed)[3] == Summary(math.inf, 2.0, math.inf)


def row(**fields):
    metrics = dict.fromkeys(METRICS) | {"gap": Summary(0.5, 0.25, 1.0)}
    return Row(1, "a (size=1)", "a", {"size": 1}, (0, 1), ("x", "y"), 0, 1.0, metrics, **fields)


def test_a_row_counts_its_runs_and_knows_its_medians():
    assert row().runs == 2
    assert row().median("gap") == 0.5
    assert row().median("objective") is None
    with pytest.raises(KeyError):
        row().median("speed")


@pytest.mark.parametrize(
    ("quantity", "is_ratio"), [("passes", True), ("bytes", True), ("gap", False), ("test_error", False)]
)
def test_costs_are_compared_by_ratios_and_all_else_by_differences(quantity, is_ratio):
    found = Comparison("a", "b", 8, 8, 0, 0.01, 0.02, True, quantity, None, None)
    assert found.is_ratio is is_ratio
