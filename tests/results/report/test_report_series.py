"""One run's curve as arrays."""

from result_samples import make_curve, make_record

from drobench.results.record import Status
from drobench.results.report.bands import solver_curves
from drobench.results.report.series import run_series

INFINITE = float("inf")


def series(objectives, optimum=None, status=Status.BUDGET_SPENT, **columns):
    record = make_record(optimum=optimum, status=status, reason="because")
    return run_series(record, make_curve(objectives, optimum, **columns))


def test_relative_gap_divides_by_the_gap_at_the_start():
    run = series([5.0, 3.0, 2.0], optimum=1.0)
    positions, values = run.measures["relative_gap"]
    assert positions.tolist() == [0, 1, 2]
    assert values.tolist() == [1.0, 0.5, 0.25]


def test_infeasible_point_has_not_reached_any_gap_but_a_missing_value_is_only_not_measured():
    gaps, feasible = [None, 2.0, 1.0], [False, True, True]
    run = series([5.0, 3.0, 2.0], optimum=1.0, gap=gaps, feasible=feasible, stationarity=[4.0, None, 1.0])
    assert run.measures["gap"][1].tolist() == [INFINITE, 2.0, 1.0]
    assert run.measures["stationarity"][0].tolist() == [0, 2]
    found = solver_curves([run], points=50)
    assert found.bands["passes", "stationarity"].median.tolist() == [4.0, 4.0, 1.0]


def test_number_that_is_not_finite_counts_as_infinite():
    run = series([5.0, float("nan")])
    assert run.measures["objective"][1].tolist() == [5.0, INFINITE]


def test_no_optimum_means_no_gap_and_one_process_exchanges_nothing():
    run = series([5.0, 3.0], communication_bytes=[0, 0])
    found = solver_curves([run], points=50)
    assert {cost for cost, _ in found.bands} == {"oracle_calls", "passes", "solver_seconds"}
    assert {measure for _, measure in found.bands} == {"objective"}
