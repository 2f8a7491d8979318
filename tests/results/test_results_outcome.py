"""What a run came to: every combination of objective, violation, feasibility, optimum and status."""

import itertools
import json
import math

import pytest
from result_samples import make_record

from drobench.results.outcome import Ending, ending_of, explanation, outcome_of, scored_start
from drobench.results.parts import RELATIVE_TOLERANCE, certified_within
from drobench.results.record import Iterate, Optimum, Outcome, Record, Status

ENDED = (Status.CONVERGED, Status.BUDGET_SPENT)
LOST = (Status.DIVERGED, Status.NON_FINITE)
UNSCORED = (Status.FAILED, Status.SKIPPED)
TOLERANCE = 0.05


def point(objective, violation=None):
    feasible = violation is None or violation <= TOLERANCE
    return Iterate(objective=objective, train_max_violation=violation, feasible=feasible)


def judged(start, last, optimum=None, status=Status.BUDGET_SPENT):
    known = None if optimum is None else Optimum(value=optimum, method="exact")
    return outcome_of(status, start, last, known)


@pytest.mark.parametrize("status", ENDED)
@pytest.mark.parametrize("objective", [-1, 0, 1])
@pytest.mark.parametrize(("before", "after"), list(itertools.product([None, -0.5, 0.0, 0.02, 0.2, 0.3], repeat=2)))
def test_a_run_is_worse_where_its_start_is_at_least_as_good_in_both_and_better_in_one(status, objective, before, after):
    violation = max(0.0, after or 0.0) - max(0.0, before or 0.0)
    expected = objective >= 0 and violation >= 0 and (objective > 0 or violation > 0)
    found = judged(point(2.0, before), point(2.0 + objective, after), status=status)
    assert found is (Outcome.WORSE_THAN_START if expected else Outcome.OK)


def test_a_trade_of_one_for_the_other_is_not_worse():
    assert judged(point(1.0, 0.0), point(0.5, 0.3)) is Outcome.OK
    assert judged(point(1.0, 0.3), point(9.0, 0.1)) is Outcome.OK


def test_constraints_that_hold_with_more_or_less_room_are_alike():
    assert judged(point(1.0, -0.9), point(1.0, -0.1)) is Outcome.OK
    assert judged(point(1.0, -0.1), point(1.5, -0.9)) is Outcome.WORSE_THAN_START


def test_from_an_infeasible_start_to_a_feasible_end_is_never_worse():
    barely = math.nextafter(TOLERANCE, 1.0)
    assert judged(point(1.0, barely), point(900.0, TOLERANCE)) is Outcome.OK
    assert judged(point(1.0, barely), point(900.0, barely)) is Outcome.WORSE_THAN_START


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e6])
def test_rounding_makes_nothing_worse(scale):
    step = 1e-13 * max(1.0, scale)
    assert judged(point(scale), point(scale + step)) is Outcome.OK
    assert judged(point(scale, 0.2), point(scale, 0.2 + 1e-14)) is Outcome.OK
    assert judged(point(scale), point(scale + 1e3 * step)) is Outcome.WORSE_THAN_START


@pytest.mark.parametrize("lost", [None, math.nan, math.inf, -math.inf])
def test_an_objective_that_is_no_number_is_worse_than_any(lost):
    # In a record that was read from its file such an objective is null.
    assert judged(point(1.0), point(lost)) is Outcome.WORSE_THAN_START
    assert judged(point(1.0, 0.3), point(lost, 0.0)) is Outcome.WORSE_THAN_START


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_a_start_that_is_no_number_is_worse_than_any(lost):
    assert judged(point(lost), point(5.0)) is Outcome.OK
    assert judged(point(lost), point(lost)) is Outcome.WORSE_THAN_START


def test_a_violation_that_is_no_number_is_the_largest_of_all():
    assert judged(point(1.0, 0.3), Iterate(objective=1.0, train_max_violation=math.nan)) is Outcome.WORSE_THAN_START
    assert judged(point(1.0, 0.3), Iterate(objective=0.5, train_max_violation=math.nan)) is Outcome.OK


@pytest.mark.parametrize("status", LOST)
@pytest.mark.parametrize("last", [point(0.5), point(1.0), point(1e9), point(1.0, 0.0)])
def test_a_run_that_was_lost_is_worse_whatever_its_last_iterate(status, last):
    assert judged(point(1.0), last, status=status) is Outcome.WORSE_THAN_START


@pytest.mark.parametrize("optimum", [0.0, 1e-9, 0.3, -2.0, 1e6])
@pytest.mark.parametrize("status", [*ENDED, *LOST])
def test_a_start_at_the_certified_optimum_leaves_nothing_to_solve(optimum, status):
    within = certified_within(optimum)
    for last in (point(optimum), point(optimum + 10.0), point(math.nan)):
        for above in (-within, 0.0, 0.99 * within):
            assert judged(point(optimum + above), last, optimum, status) is Outcome.START_IS_OPTIMAL
    assert judged(point(optimum + 1.01 * within), point(optimum), optimum, Status.CONVERGED) is Outcome.OK


def test_what_a_certificate_leaves_open_is_a_share_of_the_optimum():
    assert certified_within(-4.0) == pytest.approx(4.0 * RELATIVE_TOLERANCE)
    assert certified_within(0.0) > 0.0


def test_an_infeasible_start_is_not_optimal_however_low_its_objective():
    assert judged(point(0.1, 0.5), point(1.0, 0.0), 1.0) is Outcome.OK
    assert judged(point(0.1, 0.5), point(0.2, 0.5), 1.0) is Outcome.WORSE_THAN_START
    unknown = Iterate(objective=1.0, feasible=None)
    assert judged(unknown, point(2.0), 1.0) is Outcome.WORSE_THAN_START


@pytest.mark.parametrize("status", Status)
def test_without_a_scored_start_or_end_there_is_no_outcome(status):
    assert judged(point(1.0), None, status=status) is None
    assert judged(None, point(1.0), status=status) is None
    assert judged(Iterate(), point(1.0), status=status) is None
    assert (judged(point(1.0), point(0.5), status=status) is None) == (status in UNSCORED)


def test_the_first_row_of_a_curve_is_the_start():
    row = {"objective": 2.0, "feasible": True, "step": 0, "gap": None, "train_error": "none of it", "passes": 0.0}
    assert scored_start(row) == Iterate(objective=2.0, feasible=True, step=0)


def test_the_recorded_outcome_counts_and_older_records_are_judged_anew():
    older = make_record(iterate=point(3.0))
    assert ending_of(older, point(1.0)) == Ending(Outcome.WORSE_THAN_START, point(1.0))
    assert ending_of(older, None) == Ending(None, None)
    recorded = make_record(iterate=point(3.0), outcome=Outcome.OK)
    assert ending_of(recorded, point(1.0)).outcome is Outcome.OK


def test_what_is_the_matter_is_told_in_one_sentence():
    def told(start, last, outcome, **fields):
        return explanation(make_record(iterate=last, outcome=outcome, **fields), Ending(outcome, start))

    worse = Outcome.WORSE_THAN_START
    assert told(point(0.5), point(12.25), worse) == "worse than start: the objective went from 0.5 to 12.25"
    assert told(point(0.5, -1.0), point(1.0, 0.25), worse) == (
        "worse than start: the objective went from 0.5 to 1, the largest violation from 0 to 0.25"
    )
    # Where all constraints hold at both ends there is nothing to tell of them.
    assert told(point(0.5, -1.0), point(1.0, 0.0), worse) == "worse than start: the objective went from 0.5 to 1"
    assert told(point(0.5), point(None), worse).endswith("went from 0.5 to a value that is not finite")
    assert told(None, point(1.0), worse).startswith("worse than start: the start has the lower objective")
    assert told(point(0.5), point(1.0), Outcome.START_IS_OPTIMAL, optimum=0.5) == (
        "start is optimal: nothing to solve here, the certified optimum 0.5 is the start"
    )
    assert told(point(0.5), point(0.25), Outcome.OK) is None
    assert told(point(0.5), point(0.25), None) is None


@pytest.mark.parametrize("outcome", [None, *Outcome])
def test_an_outcome_survives_its_file(outcome):
    record = make_record(iterate=point(1.0), outcome=outcome)
    assert json.loads(record.to_json())["outcome"] == outcome
    assert Record.from_json(record.to_json()) == record
