"""What a reader is told before trusting a board."""

import dataclasses

import pytest
from comparison_samples import add_many, ranks, with_settings
from result_samples import make_record

from drobench.results.comparison.grouping import Across
from drobench.results.comparison.notes import curvature_note, few_pairs_note, pair_note, reconstruction_note
from drobench.results.record import Outcome, Status


def test_the_least_detectable_difference_is_noted(runs):
    add_many(runs, "good", [2.0, 1.2])
    for seed in range(8):
        runs.add("noisy", seed, [2.0, 1.2 + (-0.5) ** seed / 10])
    board = runs.board()
    found = board.comparisons[0].detectable
    assert 0 < found < 1
    assert any(f"would show a difference of {found:.2g} in gap" in note for note in board.notes)


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


def test_different_optima_on_one_board_are_noticed(runs):
    for gamma, optimum in ((1, 1.0), (2, 0.5)):
        record = runs.add(f"solver_{gamma}", 0, [2.0, 1.0], optimum=optimum)
        runs.records[-1] = with_settings(record, problem={"gamma": gamma})
    board = runs.board(across=["problem.gamma"])
    assert any("different optima" in note for note in board.notes)


def test_skipped_runs_are_noted_and_not_compared(runs):
    runs.add("solid", 0, [2.0, 1.0])
    runs.add("picky", 0, [], status=Status.SKIPPED, reason="needs groups")
    board = runs.board()
    assert ranks(board) == {"solid": 1}
    assert any("picky (needs groups)" in note for note in board.notes)


def test_a_board_without_the_baseline_says_so(runs):
    for solver in ("a", "b"):
        runs.add(solver, 0, [2.0, 1.0], problem="first")
    runs.add("b", 0, [2.0, 1.0], problem="second")
    second = runs.compare(baseline="a").boards[1]
    assert any("baseline a was not run here" in note for note in second.notes)


def test_solvers_whose_calls_had_second_derivatives_are_named_with_the_mean_of_their_runs():
    plain = make_record("plain")
    runs = [
        dataclasses.replace(
            plain, oracle=dataclasses.replace(plain.oracle, hessian_rows=rows, hessian_products=products)
        )
        for rows, products in ((100, 0), (300, 40))
    ]
    assert curvature_note({"plain": [plain]}) is None
    told = curvature_note({"plain": [plain], "curved": runs, "matrix": runs[:1]})
    assert told.endswith(
        "A run has: curved 200 rows in a matrix and 20 in products with vectors; matrix 100 rows in a matrix."
    )


def test_a_rebuilt_solver_is_named():
    record = make_record("old")
    rebuilt = dataclasses.replace(record, solver=dataclasses.replace(record.solver, others={"reconstructed": True}))
    assert reconstruction_note({"new": [record]}) is None
    assert reconstruction_note({"old": [rebuilt], "new": [record]}).endswith("not at hand: old.")


@pytest.mark.parametrize(
    ("solvers", "pairs", "told"), [(1, 3, False), (2, 5, True), (2, 6, False), (3, 6, True), (2, 0, False)]
)
def test_too_few_seeds_are_told_only_where_something_could_be_tested(solvers, pairs, told):
    assert (few_pairs_note(solvers, pairs) is not None) == told


def test_a_long_list_of_seeds_is_cut_in_the_middle():
    runs = {"many": [make_record(seed=seed) for seed in range(10, 40)], "few": [make_record(seed=50)]}
    assert "many: 10, 11, 12, 13, ..., 36, 37, 38, 39" in pair_note(runs, [], Across())


def test_solvers_whose_runs_ended_worse_than_they_began_are_named(runs):
    for seed, last in enumerate([1.5, 12.0, 13.0]):
        runs.add("wild", seed, [2.0, last])
        runs.add("steady", seed, [2.0, 1.5])
    runs.add("wild", 3, [2.0, 5e9], status=Status.DIVERGED)
    runs.add("steady", 3, [2.0, 1.5])
    board = runs.board()
    assert "Ended worse than they began: wild 2 of 4 runs." in board.notes
    # The one that diverged is counted once, among those that failed.
    assert {row.solver: (row.failed, row.worse_than_start) for row in board.rows} == {"wild": (1, 2), "steady": (0, 0)}


def test_of_another_iterate_it_is_not_said_that_it_is_worse(runs):
    record = runs.add("wild", 0, [2.0, 12.0])
    best = dataclasses.replace(record.iterates, best_feasible=record.iterates.last)
    runs.records[-1] = dataclasses.replace(record, iterates=best)
    board = runs.board(iterate="best_feasible")
    assert board.rows[0].worse_than_start == 0
    assert not any("worse" in note for note in board.notes)


def test_a_board_whose_start_is_optimal_says_that_there_is_nothing_to_solve(runs):
    told = (
        "the certified optimum is the start; gaps and targets relative to it mean nothing. A weaker adversary or "
        "regularizer may leave something to learn."
    )
    runs.add("still", 0, [1.0, 1.0])
    runs.add("leaving", 0, [1.0, 3.0])
    board = runs.board()
    assert f"Nothing to solve here: {told}" in board.notes
    # There is a certified optimum, so the target is not missing for want of one.
    assert not any("needs a certified optimum" in note for note in board.notes)
    runs.add("still", 1, [2.0, 1.0])
    runs.add("leaving", 1, [2.0, 1.0])
    assert f"Nothing to solve in 2 of 4 runs: {told}" in runs.board().notes


def test_what_a_record_says_of_its_outcome_is_what_the_notes_say(runs):
    runs.add("a", 0, [2.0, 1.5], outcome=Outcome.WORSE_THAN_START)
    assert any("a 1 of 1 runs" in note for note in runs.board().notes)
