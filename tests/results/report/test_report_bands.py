"""Median curves and bands, against values computed by hand and by brute force."""

import numpy
import polars
import pytest
from result_samples import make_curve, make_record

from drobench.results.record import Status
from drobench.results.report.bands import band, solver_curves, thinned
from drobench.results.report.series import run_series

INFINITE = float("inf")


def series(objectives, optimum=None, status=Status.BUDGET_SPENT, **columns):
    record = make_record(optimum=optimum, status=status, reason="because")
    return run_series(record, make_curve(objectives, optimum, **columns))


def test_band_of_three_seeds_is_the_median_with_interpolated_quartiles():
    runs = [series([4.0, 2.0]), series([4.0, 1.0]), series([4.0, 4.0])]
    found = solver_curves(runs, points=50)
    assert found.grids["passes"].tolist() == [0.0, 1.0]
    objective = found.bands["passes", "objective"]
    assert objective.median.tolist() == [4.0, 2.0]
    assert objective.low.tolist() == [4.0, 1.5]
    assert objective.high.tolist() == [4.0, 3.0]
    assert objective.least.tolist() == [4.0, 1.0]
    assert objective.most.tolist() == [4.0, 4.0]


def test_between_evaluations_the_last_value_holds_and_after_the_end_it_stays():
    short = series([3.0, 1.0], passes=[0.0, 2.0])
    long = series([3.0, 2.0, 0.5], passes=[0.0, 3.0, 4.0])
    found = solver_curves([short, long], points=50)
    assert found.grids["passes"].tolist() == [0.0, 2.0, 3.0, 4.0]
    band_found = found.bands["passes", "objective"]
    # By hand: the short run is 3, 1, 1, 1; the long one 3, 3, 2, 0.5.
    assert band_found.median.tolist() == [3.0, 2.0, 1.5, 0.75]
    assert band_found.least.tolist() == [3.0, 1.0, 1.0, 0.5]


def test_failed_run_counts_as_infinite_after_its_end():
    failed = series([3.0, 9.0], status=Status.DIVERGED, passes=[0.0, 1.0])
    good = series([3.0, 2.0, 1.0], passes=[0.0, 1.0, 2.0])
    found = solver_curves([failed, good, good], points=50).bands["passes", "objective"]
    assert found.median.tolist() == [3.0, 2.0, 1.0]
    assert found.most.tolist() == [3.0, 9.0, INFINITE]
    assert found.high.tolist() == [3.0, 5.5, INFINITE]


def test_run_without_a_curve_counts_as_infinite_everywhere():
    empty = run_series(make_record(status=Status.FAILED, reason="because"), polars.DataFrame())
    good = series([3.0, 2.0])
    found = solver_curves([empty, good, good], points=50).bands["passes", "objective"]
    assert found.median.tolist() == [3.0, 2.0]
    assert found.most.tolist() == [INFINITE, INFINITE]
    assert solver_curves([empty], points=50).bands == {}


@pytest.mark.parametrize("seeds", [1, 2, 5, 8])
def test_band_equals_numpy_where_everything_is_finite(seeds):
    values = numpy.random.default_rng(seeds).random((seeds, 7))
    found = band(values)
    assert numpy.allclose(found.median, numpy.median(values, axis=0))
    assert numpy.allclose([found.low, found.high], numpy.quantile(values, [0.25, 0.75], axis=0))


def test_quartiles_beside_infinity_are_the_wider_neighbours_and_never_undefined():
    values = numpy.array([[1.0], [2.0], [INFINITE], [INFINITE]])
    found = band(values)
    assert found.low.tolist() == [1.0]
    assert found.median.tolist() == [INFINITE]
    assert found.high.tolist() == [INFINITE]


def test_thinning_keeps_the_ends_and_something_for_both_scales():
    positions = numpy.arange(0.0, 100001.0)
    kept = thinned(positions, 60)
    assert kept.size <= 60
    assert kept[[0, -1]].tolist() == [0.0, 100000.0]
    assert numpy.isin(kept, positions).all()
    assert ((kept > 0) & (kept < 100)).sum() >= 8, "a log axis shows the beginning"
    assert numpy.diff(kept).max() < 4000, "a linear axis has no holes"
    assert thinned(positions[:10], 60).tolist() == positions[:10].tolist()
