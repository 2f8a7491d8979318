import dataclasses
import math

import polars
import pytest
from result_samples import make_curve, make_record

from drobench.errors import SettingError
from drobench.results.comparison.labels import distinguishing_labels
from drobench.results.comparison.leaderboard import NothingToCompare, leaderboard
from drobench.results.comparison.question import Question
from drobench.results.comparison.targets import Target
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
        return leaderboard(self.records, self.curves.__getitem__, Question.of(**settings))

    def board(self, **settings):
        (board,) = self.compare(**settings).boards
        return board


@pytest.fixture
def runs():
    return Runs()


def ranks(board):
    return {row.solver: row.rank for row in board.rows}


def order(board):
    return [row.solver for row in board.rows]


def add_many(runs, solver, objectives, seeds=range(8), **settings):
    """The same objectives for every seed, but for a little that differs from seed to seed."""
    return [
        runs.add(solver, seed, [*objectives[:-1], objectives[-1] + 1e-3 * (seed + 1)], **settings) for seed in seeds
    ]


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
    assert order(board) == ["better", "worse"]
    assert board.rows[0].metrics["gap"] is None


def test_without_an_objective_the_test_error_ranks(runs):
    for solver, error in (("worse", 0.4), ("better", 0.3)):
        runs.add(solver, 0, [1.0], optimum=None, iterate=Iterate(test_error=error, feasible=True))
    board = runs.board()
    assert board.ranked_by == "test_error"
    assert order(board) == ["better", "worse"]


def test_where_there_are_constraints_the_error_ranks_and_the_violation_among_the_infeasible(runs):
    for solver, error, violation in (
        ("even_worse", 0.1, 0.3),
        ("worse", 0.2, 0.2),
        ("fair", 0.4, -0.1),
        ("good", 0.3, 0),
    ):
        point = Iterate(objective=1.0, train_error=error, train_max_violation=violation, feasible=violation <= 0)
        runs.add(solver, 0, [1.0], optimum=None, iterate=point)
    board = runs.board()
    assert board.ranked_by == "train_error"
    assert order(board) == ["good", "fair", "worse", "even_worse"]
    assert order(runs.board(by="objective"))[2:] == ["worse", "even_worse"]


def test_the_cost_of_the_target_then_the_gap_then_the_violation_decide_and_failures_are_last(runs):
    for seed in (0, 1):
        runs.add("quick", seed, [2.0, 1.0])
        runs.add("slow", seed, [2.0, 1.5, 1.0])
        runs.add("never", seed, [2.0, 1.3])
        runs.add("nowhere", seed, [2.0, 1.9])
        infeasible = Iterate(objective=0.5, train_max_violation=0.1, feasible=False)
        runs.add("infeasible", seed, [2.0, 0.5], curve=make_curve([2.0, 0.5], gap=[1.0, None]), iterate=infeasible)
        runs.add("crashing", seed, [2.0, 1.0], status=Status.DIVERGED)
    board = runs.board()
    assert order(board) == ["quick", "slow", "never", "nowhere", "infeasible", "crashing"]
    assert [row.mean_place for row in board.rows] == [1, 2, 3, 4, 5, 6]
    assert board.ranked_by == "gap"


def test_few_seeds_share_all_ranks_and_a_note_says_that_nothing_could_be_shown(runs):
    for seed in range(3):
        runs.add("good", seed, [2.0, 1.0])
        runs.add("bad", seed, [2.0, 1.9])
        runs.add("worse", seed, [2.0, 1.95])
    board = runs.board()
    assert ranks(board) == {"good": 1, "bad": 1, "worse": 1}
    assert order(board) == ["good", "bad", "worse"]
    assert [row.rank_interval for row in board.rows] == [None] * 3
    (note,) = [note for note in board.notes if "seeds" in note]
    assert "With 3 seeds no difference can be significant (least p: 0.25, adjusted 0.75)" in note
    assert "3 solvers need 7 seeds" in note
    assert "at most 75%" in note


def test_enough_seeds_tell_ranks_apart(runs):
    add_many(runs, "good", [2.0, 1.2])
    add_many(runs, "bad", [2.0, 1.5])
    add_many(runs, "worse", [2.0, 1.8])
    board = runs.board()
    assert ranks(board) == {"good": 1, "bad": 2, "worse": 3}
    assert [row.rank_interval for row in board.rows] == [(1, 1), (2, 2), (3, 3)]
    assert all(found.significant for found in board.comparisons)
    first = board.comparisons[0]
    assert (first.better, first.worse, first.pairs, first.wins, first.losses) == ("good", "bad", 8, 8, 0)
    assert first.p_value == 2 / 2**8
    assert first.p_adjusted == 3 * 2 / 2**8
    assert (first.quantity, first.effect.median) == ("gap", pytest.approx(0.3))


def test_the_least_detectable_difference_is_noted(runs):
    add_many(runs, "good", [2.0, 1.2])
    for seed in range(8):
        runs.add("noisy", seed, [2.0, 1.2 + (-0.5) ** seed / 10])
    board = runs.board()
    found = board.comparisons[0].detectable
    assert 0 < found < 1
    assert any(f"would show a difference of {found:.2g} in gap" in note for note in board.notes)


def test_a_difference_that_the_seeds_do_not_show_is_no_difference(runs):
    for seed in range(8):
        runs.add("one", seed, [2.0, 1.3 + 0.1 * (-1) ** seed])
        runs.add("other", seed, [2.0, 1.31])
    board = runs.board()
    assert set(ranks(board).values()) == {1}
    assert not board.comparisons[0].significant
    assert {row.rank_interval for row in board.rows} == {(1, 2)}


def test_costs_are_compared_by_their_ratio(runs):
    for seed in range(8):
        runs.add("quick", seed, [3.0] * (seed + 1) + [1.0])
        runs.add("slow", seed, [3.0] * (2 * seed + 2) + [1.0])
    board = runs.board()
    (found,) = board.comparisons
    assert (found.quantity, found.effect.median, found.is_ratio) == ("passes", 2.0, True)
    assert found.detectable == pytest.approx(1.0)
    assert board.rows[1].comparison is found
    assert board.rows[0].comparison is None


def test_everything_can_be_compared_with_a_baseline(runs):
    add_many(runs, "good", [2.0, 1.2])
    add_many(runs, "bad", [2.0, 1.5])
    add_many(runs, "worse", [2.0, 1.8])
    board = runs.board(baseline="bad")
    assert board.reference == "bad"
    assert [row.comparison and (row.comparison.better, row.comparison.worse) for row in board.rows] == [
        ("good", "bad"),
        None,
        ("bad", "worse"),
    ]
    cells = board.to_table()
    assert [row[cells.header.index("vs bad")] for row in cells.rows] == ["-0.3 gap", "-", "+0.3 gap"]
    with pytest.raises(SettingError, match="bad, good, worse; found 'best'"):
        runs.compare(baseline="best")


def test_a_baseline_with_several_configurations_must_be_named_in_full(runs):
    for size in (1, 2):
        runs.add("a", 0, [2.0, 1.0 + size / 10], config={"size": size})
    with pytest.raises(SettingError, match=r"2 of them: a \(size=1\), a \(size=2\)"):
        runs.compare(baseline="a")
    assert runs.board(baseline="a (size=2)").reference == "a (size=2)"


def test_a_board_without_the_baseline_says_so(runs):
    for solver in ("a", "b"):
        runs.add(solver, 0, [2.0, 1.0], problem="first")
    runs.add("b", 0, [2.0, 1.0], problem="second")
    second = runs.compare(baseline="a").boards[1]
    assert any("baseline a was not run here" in note for note in second.notes)


def test_equal_solvers_share_a_place(runs):
    for solver in ("b", "a"):
        runs.add(solver, 0, [2.0, 1.0])
    runs.add("c", 0, [2.0, 1.5])
    board = runs.board()
    assert [(row.mean_place, row.solver) for row in board.rows] == [(1.5, "a"), (1.5, "b"), (3, "c")]


@pytest.mark.parametrize("status", [Status.FAILED, Status.DIVERGED, Status.NON_FINITE])
def test_failed_runs_never_disappear(runs, status):
    runs.add("fragile", 0, [2.0, 1.0])
    runs.add("fragile", 1, [], status=status, curve=polars.DataFrame(), optimum=None)
    runs.add("solid", 0, [2.0, 1.2])
    runs.add("solid", 1, [2.0, 1.2])
    board = runs.board()
    fragile = next(row for row in board.rows if row.solver == "fragile")
    assert (fragile.runs, fragile.failed, fragile.feasible_share) == (2, 1, 0.5)
    assert fragile.median("objective") == math.inf
    assert fragile.median("passes_to_target") == math.inf
    assert fragile.mean_place == 1.5


def test_a_solver_that_always_fails_has_a_row(runs):
    runs.add("solid", 0, [2.0, 1.0])
    runs.add("broken", 0, [], status=Status.FAILED, curve=polars.DataFrame())
    board = runs.board()
    assert order(board) == ["solid", "broken"]
    table = board.to_table()
    cells = dict(zip(table.header, table.rows[1], strict=True))
    assert (cells["failed"], cells["gap"], cells["passes to 1e-4"], cells["feasible"]) == ("1", "failed", "never", "0%")


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
    assert row.median("relative_gap") == math.inf


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
    (note,) = [note for note in board.notes if "Only the seeds" in note]
    assert "(1, 2)" in note
    assert "many: 0, 3" in note
    assert "few" not in note


def test_enough_equal_seeds_within_the_budget_need_no_note(runs):
    for solver in ("a", "b"):
        for seed in range(6):
            runs.add(solver, seed, [2.0] * 10 + [1.5])
    assert runs.board(target_gap=1.0).notes == ()


def test_runs_that_overspent_or_stopped_early_are_noted(runs):
    runs.add("greedy", 0, [2.0] * 16)
    runs.add("lazy", 0, [2.0] * 6)
    runs.add("exact", 0, [2.0] * 11)
    runs.add("done", 0, [2.0, 1.0], status=Status.CONVERGED)
    notes = [note for note in runs.board().notes if "budget" in note]
    assert notes == [
        "greedy: 1 of 1 runs spent up to 1.5 times the budget.",
        "lazy: 1 of 1 runs stopped at 50% of the budget or later.",
    ]


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
    assert order(board) == ["a", "b"]
    assert board.rows[0].median("objective") == 1.25
    assert board.rows[0].median("relative_gap") == 0.25
    assert board.rows[0].metrics["passes_to_target"] is None
    assert board.rows[1].metrics["objective"] is None
    assert any("b: 1 of 1 complete runs have no `average` iterate" in note for note in board.notes)
    assert any("last iterate only" in note for note in board.notes)
    assert order(runs.board()) == ["b", "a"]


def with_settings(record, **settings):
    """A record with other settings of problem (`surrogate`) or data (`seed`, with its own checksum)."""
    problem = dataclasses.replace(record.problem, config=record.problem.config | settings.get("problem", {}))
    dataset = record.dataset
    if "data_seed" in settings:
        number = settings["data_seed"]
        sha256 = None if record.dataset.sha256 is None else f"{number}" * 64
        dataset = dataclasses.replace(dataset, config={"seed": number}, sha256=sha256)
    return dataclasses.replace(record, problem=problem, dataset=dataset)


def add_split(runs, solver, data_seed, seed, objectives, surrogate, **settings):
    record = runs.add(solver, seed, objectives, reason=f"{data_seed} {surrogate}", **settings)
    runs.records[-1] = with_settings(record, problem={"surrogate": surrogate}, data_seed=data_seed)


def test_surrogates_and_splits_make_boards_of_their_own_unless_compared_across(runs):
    for data_seed in range(4):
        for seed in (0, 1):
            add_split(runs, "ours", data_seed, seed, [2.0, 1.2 + data_seed / 10 + seed / 100], "bce")
            add_split(runs, "theirs", data_seed, seed, [2.0, 1.3 + data_seed / 10 + seed / 100], "hinge")
    apart = runs.compare()
    assert len(apart.boards) == 8
    (hint,) = apart.notes
    assert "`--across problem.surrogate,dataset.seed`" in hint

    together = runs.compare(across=["dataset.seed", "problem.surrogate"])
    assert together.notes == ()
    (board,) = together.boards
    assert board.title == "robust on tiny"
    assert ranks(board) == {"ours": 1, "theirs": 2}
    (found,) = board.comparisons
    assert (found.pairs, found.wins) == (8, 8)
    assert found.effect.median == pytest.approx(0.1)
    assert board.problem["config"] == {"gamma": 0.5}
    assert board.dataset == {"name": "tiny", "config": {}, "sha256": None}


def test_a_solver_run_with_both_surrogates_is_two_contenders_and_no_hint_is_given(runs):
    for surrogate in ("bce", "hinge"):
        add_split(runs, "ours", 0, 0, [2.0, 1.2], surrogate)
    assert runs.compare().notes == ()
    board = runs.board(across=["problem.surrogate"])
    assert set(order(board)) == {"ours (problem.surrogate=bce)", "ours (problem.surrogate=hinge)"}


def test_pairs_of_data_and_seed_that_a_solver_lacks_are_left_out(runs):
    for data_seed in range(3):
        add_split(runs, "ours", data_seed, 7, [2.0, 1.2], "bce")
    add_split(runs, "theirs", 1, 7, [2.0, 1.2], "bce")
    board = runs.board(across=["dataset.seed"])
    assert {row.solver: row.runs for row in board.rows} == {"ours": 1, "theirs": 1}
    assert any("(1/7). Left out: ours: 0/7, 2/7." in note for note in board.notes)


def test_a_failed_run_without_data_is_paired_with_its_split(runs):
    for data_seed in (0, 1):
        add_split(runs, "ours", data_seed, 0, [2.0, 1.2], "bce")
    add_split(runs, "theirs", 0, 0, [2.0, 1.2], "bce")
    add_split(runs, "theirs", 1, 0, [], "bce", status=Status.FAILED, sha256=None, curve=polars.DataFrame())
    board = runs.board(across=["dataset.seed"])
    assert {row.solver: (row.runs, row.failed) for row in board.rows} == {"ours": (2, 0), "theirs": (2, 1)}


@pytest.mark.parametrize("name", ["budget.passes", "dataset.rows", "seed"])
def test_what_makes_another_task_cannot_be_compared_across(runs, name):
    runs.add("a", 0, [2.0])
    with pytest.raises(SettingError, match=name):
        runs.compare(across=[name])


def test_different_optima_on_one_board_are_noticed(runs):
    for gamma, optimum in ((1, 1.0), (2, 0.5)):
        record = runs.add(f"solver_{gamma}", 0, [2.0, 1.0], optimum=optimum)
        runs.records[-1] = with_settings(record, problem={"gamma": gamma})
    board = runs.board(across=["problem.gamma"])
    assert any("different optima" in note for note in board.notes)


def test_several_targets_are_reported_and_the_first_decides(runs):
    runs.add("a", 0, [3.0, 1.5, 1.02, 1.0])
    runs.add("b", 0, [3.0, 1.01, 1.01])
    targets = [Target.of(gap=0.001), Target.of(gap=0.1), Target.of(train_error=0.3)]
    board = runs.board(targets=targets)
    a, b = board.rows
    assert (a.solver, b.solver) == ("a", "b")
    assert [found.costs["passes"].median for found in a.reached[:2]] == [3.0, 2.0]
    assert [found.costs["passes"].median for found in b.reached[:2]] == [math.inf, 1.0]
    assert [found.share for found in b.reached] == [0.0, 1.0, 0.0]
    assert a.reached[2].costs["passes"] is None, "no curve here has a training error"
    assert order(runs.board(targets=targets[1:])) == ["b", "a"]


def test_other_costs_can_decide(runs):
    runs.add("a", 0, [2.0, 1.0], curve=make_curve([2.0, 1.0], OPTIMUM, oracle_calls=[0, 900]))
    runs.add("b", 0, [2.0, 1.5, 1.0], curve=make_curve([2.0, 1.5, 1.0], OPTIMUM, oracle_calls=[0, 10, 20]))
    assert order(runs.board()) == ["a", "b"]
    board = runs.board(cost="oracle_calls")
    assert order(board) == ["b", "a"]
    assert board.rows[0].median("oracle_calls_to_target") == 20
    assert board.rows[0].median("passes_to_target") == 2
    assert board.comparisons[0].quantity == "oracle_calls"


def test_the_best_configuration_is_chosen_on_validation_data_and_its_cost_is_shown(runs):
    for size, validation, test in ((1, 0.3, 0.1), (2, 0.2, 0.4), (3, 0.25, 0.2)):
        point = Iterate(objective=1.0, validation_error=validation, test_error=test, feasible=True)
        runs.add("tuned", 0, [2.0, 1.0], config={"size": size}, iterate=point)
    runs.add("plain", 0, [2.0, 1.0], config={"other": 1})
    board = runs.board(select="validation")
    assert set(order(board)) == {"tuned (size=2)", "plain"}
    tuned = next(row for row in board.rows if row.name == "tuned")
    assert (tuned.tuning.configurations, tuned.tuning.runs) == (3, 3)
    assert (tuned.tuning.oracle_calls, tuned.tuning.seconds) == (300.0, 3.0)
    assert next(row for row in board.rows if row.name == "plain").tuning.configurations == 1
    assert all(row.tuning is None for row in runs.board().rows)


def test_a_configuration_is_first_of_all_one_that_works_and_keeps_the_constraints(runs):
    def add(size, error, violation, status=Status.BUDGET_SPENT, seed=0):
        point = Iterate(
            objective=1.0, validation_error=error, train_max_violation=violation, validation_max_violation=violation,
            feasible=violation <= 0,
        )  # fmt: skip
        runs.add("a", seed, [2.0, 1.0], config={"size": size}, iterate=point, status=status)

    add(1, 0.1, 0.2)
    add(2, 0.3, -0.1)
    add(3, 0.0, -0.1, Status.DIVERGED)
    add(4, 0.05, 0.3)
    assert order(runs.board(select="validation")) == ["a (size=2)"]
    runs.records = [record for record in runs.records if record.solver.config["size"] != 2]
    assert order(runs.board(select="validation")) == ["a (size=1)"], "of infeasible ones the one that violates less"
    wide = [Target.of(objective=0.0, violation=0.5)]
    assert order(runs.board(select="validation", targets=wide)) == ["a (size=4)"], "feasible by the user's tolerance"


def test_profiles_compare_solvers_across_boards(runs):
    for problem, (first, second) in {"p": (1, 2), "q": (3, 3), "r": (2, 1)}.items():
        for seed in (0, 1, 2):
            runs.add("a", seed, [3.0] * first + [1.0], problem=problem)
            runs.add("b", seed, [3.0] * second + [1.0], problem=problem)
    runs.add("a", 0, [3.0, 1.0], problem="alone")
    found = runs.compare(target_gap=0.01).profiles
    assert (found.instances, found.unsolved, found.boards) == (3, 0, ("p on tiny", "q on tiny", "r on tiny"))
    assert found.left_out == ("alone on tiny",)
    assert {row.solver: row.score for row in found.rows} == pytest.approx({"a": 8 / 9, "b": 8 / 9})
    assert {row.solver: row.share(1.0) for row in found.rows} == pytest.approx({"a": 2 / 3, "b": 2 / 3})
    assert all(row.low == row.score == row.high for row in found.rows)
    assert {row.solver: row.speedup for row in found.rows} == pytest.approx({"a": 1.0, "b": 1.0})


def test_configurations_are_profiled_one_by_one_where_a_solver_has_several(runs):
    for problem in ("p", "q"):
        for size in (1, 2):
            runs.add("a", 0, [3.0] * size + [1.0], problem=problem, config={"size": size})
    assert [row.solver for row in runs.compare().profiles.rows] == ["a (size=1)", "a (size=2)"]


def test_one_board_has_no_profiles(runs):
    for solver in ("a", "b"):
        runs.add(solver, 0, [3.0, 1.0])
    assert runs.compare().profiles is None


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
    (board,) = leaderboard(store.records().records, store.curve, Question.of(target_gap=0.3)).boards
    assert board == runs.board(target_gap=0.3)
    assert board.rows[0].median("passes_to_target") == 1.0
