import dataclasses
import math

import polars
import pytest
from result_samples import make_curve, make_record

from drobench.errors import SettingError
from drobench.results.labels import distinguishing_labels
from drobench.results.leaderboard import NothingToCompare, leaderboard
from drobench.results.record import Iterate, Iterates, Status
from drobench.results.store import ResultStore

OPTIMUM = 1.0


class Runs:
    """Records with their curves; calling it gives a curve, as the store does."""

    def __init__(self):
        self.records = []
        self.curves = {}

    def add(self, solver, seed, objectives, *, feasible=True, curve=None, optimum=OPTIMUM, **settings):
        final = objectives[-1] if objectives else None
        gap = None if optimum is None or final is None else final - optimum
        point = Iterate(objective=final, gap=gap, train_error=0.25, test_error=final, feasible=feasible, step=10)
        settings = {"iterate": point if objectives else None} | settings
        record = make_record(solver, seed, optimum=optimum, **settings)
        self.records.append(record)
        self.curves[record.run_id] = make_curve(objectives, optimum) if curve is None else curve
        return record

    def compare(self, **settings):
        return leaderboard(self.records, self.curves.__getitem__, **settings)

    def board(self, **settings):
        (board,) = self.compare(**settings).boards
        return board


@pytest.fixture
def runs():
    return Runs()


def ranks(board):
    return {row.solver: row.rank for row in board.rows}


def test_no_results_say_how_to_make_some():
    with pytest.raises(NothingToCompare, match="drobench sweep quickstart"):
        leaderboard([], {}.__getitem__)


def test_only_skipped_runs_are_nothing_to_compare(runs):
    runs.add("fast", 0, [], status=Status.SKIPPED, reason="needs groups")
    with pytest.raises(NothingToCompare, match="needs groups"):
        runs.compare()


@pytest.mark.parametrize("settings", [{"iterate": "first"}, {"target_gap": 0}, {"target_gap": math.inf}])
def test_impossible_settings_are_refused(runs, settings):
    runs.add("fast", 0, [2.0])
    with pytest.raises(SettingError, match=next(iter(settings))):
        runs.compare(**settings)


def test_known_answers_for_one_solver(runs):
    # Starts two above the optimum; ends .002, .004 and .2 above it. The target of 1% is a gap of .02.
    runs.add("fast", 0, [3.0, 1.5, 1.002], seconds=4.0)
    runs.add("fast", 1, [3.0, 1.004, 1.004], seconds=6.0)
    runs.add("fast", 2, [3.0, 2.0, 1.2], seconds=5.0)
    (row,) = runs.board(target_gap=0.01).rows
    assert (row.rank, row.solver, row.runs, row.failed, row.seeds) == (1, "fast", 3, 0, (0, 1, 2))
    assert row.run_ids == tuple(record.run_id for record in runs.records)
    assert row.median("objective") == 1.004
    assert (row.metrics["objective"].low, row.metrics["objective"].high) == (1.002, 1.2)
    assert row.median("gap") == pytest.approx(0.004)
    assert row.median("relative_gap") == pytest.approx(0.002)
    assert row.median("train_error") == 0.25
    assert row.median("test_error") == 1.004
    assert row.metrics["train_max_violation"] is None
    # Reached after 2 passes, after 1, and never.
    assert row.median("passes_to_target") == 2.0
    assert row.median("seconds_to_target") == pytest.approx(0.2)
    assert row.metrics["passes_to_target"].low == 1.0
    assert row.metrics["passes_to_target"].high == math.inf
    assert row.median("seconds_total") == 5.0
    assert row.feasible_share == 1.0


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
    assert any("no target" in note for note in board.notes)


def test_without_a_certified_optimum_the_objective_ranks(runs):
    runs.add("worse", 0, [3.0, 2.0], optimum=None)
    runs.add("better", 0, [3.0, 1.5], optimum=None)
    board = runs.board()
    assert board.ranked_by == "objective"
    assert ranks(board) == {"better": 1, "worse": 2}
    assert board.rows[0].metrics["gap"] is None


def test_without_an_objective_the_test_error_ranks(runs):
    for solver, error in (("worse", 0.4), ("better", 0.3)):
        runs.add(solver, 0, [1.0], optimum=None, iterate=Iterate(test_error=error, feasible=True))
    board = runs.board()
    assert board.ranked_by == "test_error"
    assert ranks(board) == {"better": 1, "worse": 2}


def test_feasibility_then_failures_then_passes_then_the_gap_decide(runs):
    runs.add("infeasible", 0, [2.0, 1.0], feasible=False)
    runs.add("infeasible", 1, [2.0, 1.0], feasible=True)
    for seed in (0, 1):
        runs.add("quick", seed, [2.0, 1.0])
        runs.add("slow", seed, [2.0, 1.5, 1.0])
        runs.add("never", seed, [2.0, 1.3])
        runs.add("nowhere", seed, [2.0, 1.9])
    runs.add("crashing", 0, [2.0, 1.0], status=Status.DIVERGED)
    runs.add("crashing", 1, [2.0, 1.0])
    board = runs.board()
    assert [row.solver for row in board.rows] == ["quick", "slow", "never", "nowhere", "crashing", "infeasible"]
    assert [row.rank for row in board.rows] == [1, 2, 3, 4, 5, 6]
    assert board.ranked_by == "gap"


def test_equal_solvers_share_a_rank(runs):
    for solver in ("b", "a"):
        runs.add(solver, 0, [2.0, 1.0])
    runs.add("c", 0, [2.0, 1.5])
    board = runs.board()
    assert [(row.rank, row.solver) for row in board.rows] == [(1, "a"), (1, "b"), (3, "c")]


@pytest.mark.parametrize("status", [Status.FAILED, Status.DIVERGED, Status.NON_FINITE])
def test_failed_runs_never_disappear(runs, status):
    runs.add("fragile", 0, [2.0, 1.0])
    runs.add("fragile", 1, [], status=status, curve=polars.DataFrame(), optimum=None)
    runs.add("solid", 0, [2.0, 1.2])
    runs.add("solid", 1, [2.0, 1.2])
    board = runs.board()
    fragile = next(row for row in board.rows if row.solver == "fragile")
    assert (fragile.runs, fragile.failed, fragile.feasible_share) == (2, 1, 0.5)
    assert fragile.median("objective") == 1.0
    assert fragile.median("passes_to_target") == math.inf
    assert ranks(board) == {"solid": 1, "fragile": 2}


def test_a_solver_that_always_fails_has_a_row(runs):
    runs.add("solid", 0, [2.0, 1.0])
    runs.add("broken", 0, [], status=Status.FAILED, curve=polars.DataFrame())
    board = runs.board()
    assert ranks(board) == {"solid": 1, "broken": 2}
    assert board.to_table().rows[1] == ("2", "broken", "1", "1", *["-"] * 8, "2", "0%")


def test_a_run_that_failed_before_it_saw_the_data_stays_on_its_board(runs):
    runs.add("solid", 0, [2.0, 1.0])
    runs.add("broken", 0, [], status=Status.FAILED, sha256=None, curve=polars.DataFrame())
    board = runs.board()
    assert {row.solver for row in board.rows} == {"solid", "broken"}
    assert board.dataset["sha256"] == "a" * 64


def test_a_diverged_run_has_not_reached_the_target_on_its_way(runs):
    runs.add("wild", 0, [2.0, 1.0, 50.0], status=Status.DIVERGED)
    row = runs.board().rows[0]
    assert row.median("passes_to_target") == math.inf
    assert row.median("relative_gap") == 49.0


def test_skipped_runs_are_noted_and_not_compared(runs):
    runs.add("solid", 0, [2.0, 1.0])
    runs.add("picky", 0, [], status=Status.SKIPPED, reason="needs groups")
    board = runs.board()
    assert ranks(board) == {"solid": 1}
    assert any("picky (needs groups)" in note for note in board.notes)


def test_only_common_seeds_are_compared_and_a_note_says_so(runs):
    for seed in (0, 1, 2, 3):
        runs.add("many", seed, [2.0, 1.0 + seed])
    for seed in (1, 2):
        runs.add("few", seed, [2.0, 1.5])
    board = runs.board()
    many = next(row for row in board.rows if row.solver == "many")
    assert many.seeds == (1, 2)
    assert many.median("objective") == 2.5
    (note,) = [note for note in board.notes if "seeds" in note]
    assert "(1, 2)" in note
    assert "many: 0, 3" in note
    assert "few" not in note


def test_equal_seeds_need_no_note(runs):
    for solver in ("a", "b"):
        for seed in (0, 1):
            runs.add(solver, seed, [2.0, 1.0])
    assert runs.board().notes == ()


def test_without_a_common_seed_all_runs_are_shown_unpaired(runs):
    runs.add("a", 0, [2.0, 1.0])
    runs.add("b", 1, [2.0, 1.0])
    board = runs.board()
    assert [row.seeds for row in board.rows] == [(0,), (1,)]
    assert any("not paired" in note for note in board.notes)


def test_different_problems_data_and_budgets_are_different_boards(runs):
    runs.add("a", 0, [2.0, 1.0])
    runs.add("a", 0, [2.0, 1.0], problem="other")
    runs.add("a", 0, [2.0, 1.0], dataset="large")
    runs.add("a", 0, [2.0, 1.0], sha256="b" * 64)
    runs.add("a", 0, [2.0, 1.0], budget={"passes": 20})
    titles = [board.title for board in runs.compare().boards]
    assert titles == [
        "other on tiny",
        "robust on large",
        f"robust on tiny (dataset.sha256={'a' * 12}, budget.passes=10)",
        f"robust on tiny (dataset.sha256={'a' * 12}, budget.passes=20)",
        f"robust on tiny (dataset.sha256={'b' * 12}, budget.passes=10)",
    ]


def test_configurations_of_one_solver_are_told_apart_by_what_differs(runs):
    runs.add("a", 0, [2.0, 1.2], config={"step": {"size": 0.1}, "batch": 8})
    runs.add("a", 0, [2.0, 1.1], config={"step": {"size": 0.5}, "batch": 8})
    runs.add("b", 0, [2.0, 1.3], config={"batch": 8})
    board = runs.board()
    assert [row.solver for row in board.rows] == ["a (step.size=0.5)", "a (step.size=0.1)", "b"]
    assert [row.name for row in board.rows] == ["a", "a", "b"]
    assert board.rows[0].config == {"step": {"size": 0.5}, "batch": 8}


def test_precision_and_reformulation_are_not_mixed(runs):
    runs.add("a", 0, [2.0, 1.2], trainer={"dtype": "float32"})
    runs.add("a", 0, [2.0, 1.1], trainer={"dtype": "float64"})
    runs.add("b", 0, [2.0, 1.4], reformulation={"alpha": 1})
    runs.add("b", 0, [2.0, 1.3], reformulation={"alpha": 2})
    labels = [row.solver for row in runs.board().rows]
    assert labels == [
        "a (trainer.dtype=float64)",
        "a (trainer.dtype=float32)",
        "b (reformulation.alpha=2)",
        "b (reformulation.alpha=1)",
    ]


def test_labels_that_look_alike_are_numbered():
    assert distinguishing_labels([("a", {"x": 1}), ("a", {"x": "1"})]) == ["a (x=1)", "a (x=1) #2"]
    assert distinguishing_labels([("a", {"x": 1}), ("a", {})]) == ["a (x=1)", "a"]
    assert distinguishing_labels([("a", {"x": None}), ("a", {"x": True})]) == ["a (x=null)", "a (x=true)"]


def test_a_seed_that_counts_twice_is_noted(runs):
    runs.add("a", 0, [2.0, 1.0])
    again = runs.add("a", 0, [2.0, 1.2], reason="after an update")
    board = runs.board()
    assert again.run_id in board.rows[0].run_ids
    assert board.rows[0].runs == 2
    assert any("same seed" in note for note in board.notes)


def test_mixed_hardware_and_threads_are_noted(runs):
    runs.add("a", 0, [2.0, 1.0], hardware={"cpu": "x"}, threads=1)
    runs.add("b", 0, [2.0, 1.0], hardware={"cpu": "y"}, threads=4)
    runs.add("c", 0, [2.0, 1.0], hardware=None, threads=None)
    notes = runs.board().notes
    assert any("2 kinds of hardware" in note for note in notes)
    assert any("threads (1, 4)" in note for note in notes)


def test_iterates_are_compared_apart(runs):
    record = runs.add("a", 0, [2.0, 1.5])
    runs.add("b", 0, [2.0, 1.0])
    average = Iterate(objective=1.25, gap=0.25, feasible=True, step=10)
    runs.records[0] = dataclasses.replace(record, iterates=Iterates(last=record.iterates.last, average=average))
    board = runs.board(iterate="average")
    assert ranks(board) == {"a": 1, "b": 2}
    assert board.rows[0].median("objective") == 1.25
    assert board.rows[0].median("relative_gap") == 0.25
    assert board.rows[0].metrics["passes_to_target"] is None
    assert board.rows[1].metrics["objective"] is None
    assert any("b: 1 of 1 complete runs have no `average` iterate" in note for note in board.notes)
    assert any("last iterate only" in note for note in board.notes)
    assert ranks(runs.board()) == {"b": 1, "a": 2}


def test_the_order_of_the_records_does_not_matter(runs):
    for solver in ("a", "b"):
        for seed in (0, 1, 2):
            runs.add(solver, seed, [2.0, 1.0 + seed / 10])
    forward = runs.compare()
    runs.records.reverse()
    assert runs.compare() == forward


def test_a_store_feeds_a_leaderboard(tmp_path, runs):
    store = ResultStore(tmp_path)
    for seed in (0, 1):
        record = runs.add("a", seed, [2.0, 1.0 + seed / 4])
        store.write(record, runs.curves[record.run_id], {}, "")
    (board,) = leaderboard(store.records().records, store.curve, target_gap=0.3).boards
    assert board == runs.board(target_gap=0.3)
    assert board.rows[0].median("passes_to_target") == 1.0
