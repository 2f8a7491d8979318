"""When each run reached each target, and what that cost."""

import math

import polars
import pytest
from comparison_samples import OPTIMUM
from result_samples import make_curve, make_record

from drobench.results.comparison.readings import read_curves
from drobench.results.comparison.targets import COSTS, DEFAULT_TARGETS, Target
from drobench.results.curves import StoredCurves
from drobench.results.outcome import Ending
from drobench.results.parts import certified_within
from drobench.results.record import Iterate, Outcome, Status
from drobench.results.store import ResultStore


def reached(curve, *targets, optimum=1.0, **settings):
    record = make_record(optimum=optimum, **settings)
    return read_curves([record], {record.run_id: curve}.__getitem__, targets)[record.run_id]


@pytest.fixture
def stored(tmp_path):
    """Runs whose curves have different columns and types, and some none at all."""
    store = ResultStore(tmp_path / "a folder [with] odd* signs")
    curves = [
        make_curve([3.0, 1.5, 1.0], 1.0),
        make_curve([3.0, 2.0]).drop("oracle_calls"),
        make_curve([3.0, 1.0], 1.0, train_max_violation=[0, 1], note=[True, False]).select(
            "gap", polars.all().exclude("gap")
        ),
        make_curve([4, 1], 1).cast({"passes": polars.Float32}),
        polars.DataFrame(),
        make_curve([3.0], 1.0).clear(),
        make_curve([3.0, 1.0, 70.0], 1.0),
    ]
    records = []
    for seed, curve in enumerate(curves):
        status = Status.DIVERGED if seed == len(curves) - 1 else Status.BUDGET_SPENT
        records.append(make_record(seed=seed, optimum=None if seed == 1 else 1.0, status=status))
        store.write(records[-1], curve, {}, "")
    return store, records


def test_a_joint_target_needs_all_its_limits_at_the_same_evaluation():
    curve = make_curve(
        [3.0, 1.1, 1.5, 1.1],
        1.0,
        train_max_violation=[0.0, 0.5, 0.0, 0.01],
        train_error=[0.5, 0.1, 0.3, 0.2],
    )
    found = reached(curve, Target.of(gap=0.1), Target.of(gap=0.1, violation=0.1), Target.of(error=0.2, violation=0.0))
    assert [costs["passes"] for costs in found.costs] == [1.0, 3.0, math.inf]


def test_every_cost_is_that_of_the_first_hit():
    curve = make_curve([3.0, 1.0, 1.5, 1.0], 1.0, communication_bytes=[0, 8, 16, 24])
    (costs,) = reached(curve, Target.of(gap=0.01)).costs
    assert costs == {"passes": 1.0, "oracle_calls": 100.0, "seconds": pytest.approx(0.1), "bytes": 8.0}
    assert set(costs) == set(COSTS)


def test_a_violation_that_the_target_allows_does_not_hide_the_gap():
    # The problem calls the second point infeasible, so its gap is null; the target is more generous.
    curve = make_curve([3.0, 0.9], gap=[2.0, None], train_max_violation=[0.0, 0.05])
    found = reached(curve, Target.of(gap=0.01), Target.of(gap=0.01, violation=0.1), Target.of(gap=0.01, violation=0.01))
    assert [costs["passes"] for costs in found.costs] == [math.inf, 1.0, math.inf]


def test_what_a_run_does_not_have_cannot_be_asked():
    found = reached(
        make_curve([3.0, 1.0]), Target.of(gap=0.1), Target.of(error=0.1), Target.of(objective=1.0), optimum=None
    )
    assert found.costs[:2] == (None, None)
    assert found.costs[2]["passes"] == 1.0
    assert found.start_gap is None


def test_not_a_number_is_no_evidence():
    curve = make_curve([3.0, math.nan, 1.5], 1.0, gap=[2.0, math.nan, 0.5])
    found = reached(curve, Target.of(gap=0.3), Target.of(objective=2.0))
    assert [costs["passes"] for costs in found.costs] == [2.0, 2.0]


def test_what_was_used_is_what_stands_at_the_end():
    found = reached(make_curve([3.0, 2.0, 1.0], 1.0), *DEFAULT_TARGETS)
    assert found.used == {"passes": 2.0, "oracle_calls": 200.0, "seconds": pytest.approx(0.2), "steps": 20.0}
    assert reached(polars.DataFrame(), *DEFAULT_TARGETS).used == {}


def test_all_curves_at_once_say_the_same_as_one_by_one(stored):
    store, records = stored
    targets = [*DEFAULT_TARGETS, Target.of(gap=0.5, violation=0.5), Target.of(objective=2.0)]
    at_once = read_curves(records, StoredCurves(store), targets)
    assert at_once == read_curves(records, store.curve, targets)
    assert at_once[records[0].run_id].costs[0]["passes"] == 2.0
    assert at_once[records[3].run_id].start_gap == 3.0
    assert at_once[records[6].run_id].costs[0]["passes"] == math.inf
    assert read_curves([], StoredCurves(store), targets) == {}


def test_one_curve_is_still_given_as_the_store_has_it(stored):
    store, records = stored
    assert StoredCurves(store)(records[2].run_id).equals(store.curve(records[2].run_id))


def test_the_target_is_relative_to_the_start(runs):
    # The same absolute gap of .01 is 10% of the way in one case and .1% in the other.
    runs.add("near", 0, [1.1, 1.01])
    runs.add("far", 0, [11.0, 1.01])
    board = runs.board(target_gap=0.01)
    reached = {row.solver: row.median("passes_to_target") for row in board.rows}
    assert reached == {"near": math.inf, "far": 1.0}
    assert {row.solver: row.median("relative_gap") for row in board.rows} == pytest.approx({"near": 0.1, "far": 0.001})


def test_the_target_counts_when_it_is_first_reached(runs):
    runs.add("zigzag", 0, [2.0, 1.0, 1.9, 1.0])
    assert runs.board().rows[0].median("passes_to_target") == 1.0


def test_infeasible_points_do_not_reach_the_target(runs):
    # Below the optimum because the constraints are not met: the gap is null there, and so is the hit.
    curve = make_curve([2.0, 0.9, 1.5, 1.0], gap=[1.0, None, 0.5, 0.0])
    runs.add("constrained", 0, [2.0, 0.9, 1.5, 1.0], curve=curve)
    assert runs.board().rows[0].median("passes_to_target") == 3.0


@pytest.mark.parametrize(
    "curve",
    [
        polars.DataFrame(),
        make_curve([2.0, 1.0], OPTIMUM).clear(),
        make_curve([3.0, 2.0, 1.0], OPTIMUM).filter(polars.col("step") > 0),
        make_curve([2.0, 1.0], OPTIMUM, objective=[math.nan, 1.0]),
        make_curve([1.0, 1.0], OPTIMUM),
    ],
    ids=["no columns", "no rows", "no start", "start not finite", "start is optimal"],
)
def test_without_a_usable_start_there_is_no_relative_gap(runs, curve):
    runs.add("odd", 0, [2.0, 1.0], curve=curve)
    board = runs.board()
    assert board.rows[0].metrics["relative_gap"] is None
    assert board.rows[0].metrics["passes_to_target"] is None
    assert any("no target" in note or "Nothing to solve" in note for note in board.notes)


@pytest.mark.parametrize(("above", "known"), [(-1.0, False), (0.0, False), (0.9, False), (1.1, True)])
def test_a_start_that_cannot_be_told_from_the_optimum_makes_no_target(above, known):
    start = 2.0 + above * certified_within(2.0)
    found = reached(make_curve([start, 2.0, 1.9], 2.0), Target.of(gap=1e-4), Target.of(objective=2.0), optimum=2.0)
    assert (found.start_gap is not None) == known
    # Else every rounding error would be a target reached, and every gap a huge one.
    assert (found.costs[0] is not None) == known
    assert found.costs[1] is not None


def test_older_records_are_judged_by_their_curves():
    def ending(curve, last, optimum=None, **settings):
        return reached(curve, Target.of(gap=0.1), optimum=optimum, iterate=last, **settings).ending

    curve = make_curve([2.0, 9.0])
    assert ending(curve, Iterate(objective=9.0)).outcome is Outcome.WORSE_THAN_START
    assert ending(curve, Iterate(objective=1.0)).outcome is Outcome.OK
    assert ending(curve, Iterate(objective=9.0), optimum=2.0).outcome is Outcome.START_IS_OPTIMAL
    assert ending(curve, Iterate(objective=9.0), outcome=Outcome.OK).outcome is Outcome.OK
    assert ending(curve, None, status=Status.FAILED).outcome is None
    assert ending(curve.clear(), Iterate(objective=9.0)) == Ending(None, None)
    assert ending(polars.DataFrame(), Iterate(objective=9.0)) == Ending(None, None)
    assert ending(make_curve([math.nan, 1.0]), Iterate(objective=9.0)) == Ending(None, None)


def test_an_older_record_whose_start_was_infeasible_is_judged_by_both():
    curve = make_curve([0.5, 1.0], gap=[None, 0.0], train_max_violation=[0.3, 0.0])

    def outcome(objective, violation, optimum):
        last = Iterate(objective=objective, train_max_violation=violation, feasible=violation <= 0)
        return reached(curve, Target.of(gap=0.1), optimum=optimum, iterate=last).ending.outcome

    for optimum in (None, 1.0):
        assert outcome(1.0, 0.0, optimum) is Outcome.OK
        assert outcome(1.0, 0.3, optimum) is Outcome.WORSE_THAN_START
        assert outcome(0.4, 0.9, optimum) is Outcome.OK
