"""Who is compared with whom: the seeds that all solvers share, and the metric that decides."""

from comparison_samples import add_split, order

from drobench.results.comparison.contenders import contenders, entries
from drobench.results.comparison.grouping import boards
from drobench.results.comparison.question import Question
from drobench.results.comparison.readings import read_curves
from drobench.results.comparison.targets import Target
from drobench.results.record import Iterate


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


def test_without_a_common_seed_all_runs_are_shown_unpaired(runs):
    runs.add("a", 0, [2.0, 1.0])
    runs.add("b", 1, [2.0, 1.0])
    board = runs.board()
    assert [row.seeds for row in board.rows] == [(0,), (1,)]
    assert any("not paired" in note for note in board.notes)


def test_pairs_of_data_and_seed_that_a_solver_lacks_are_left_out(runs):
    for data_seed in range(3):
        add_split(runs, "ours", data_seed, 7, [2.0, 1.2], "bce")
    add_split(runs, "theirs", 1, 7, [2.0, 1.2], "bce")
    board = runs.board(across=["dataset.seed"])
    assert {row.solver: row.runs for row in board.rows} == {"ours": 1, "theirs": 1}
    assert any("(1/7). Left out: ours: 0/7, 2/7." in note for note in board.notes)


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


def entered(runs, **settings):
    asked = Question.of(**settings)
    readings = read_curves(runs.records, runs.curves.__getitem__, asked.targets)
    (group,) = boards(runs.records, asked.across)
    found = entries(group, readings, asked)
    return found, contenders(found, readings, asked)


def test_the_last_of_several_runs_stands_for_their_seed(runs):
    runs.add("a", 0, [2.0, 1.0], started_at="2024-05-01T12:00:00+00:00")
    again = runs.add("a", 0, [2.0, 1.2], started_at="2024-05-02T12:00:00+00:00", reason="again")
    _, (contender,) = entered(runs)
    assert len(contender.runs) == 2
    assert [run.record for run in contender.paired] == [again]


def test_a_target_that_no_run_can_be_asked_about_has_no_costs(runs):
    runs.add("a", 0, [2.0, 1.0])
    found, (contender,) = entered(runs, targets=[Target.of(gap=0.01), Target.of(error=0.1)])
    assert found.askable == [True, False]
    assert contender.costs == [[1.0], None]
    found, (contender,) = entered(runs, iterate="average")
    assert found.askable == [False] * 3, "the way to a target is recorded for the last iterate only"
    assert found.ranked_by is None
    assert found.measure == "objective"


def test_a_chosen_configuration_takes_part_alone_and_knows_what_the_choice_cost(runs):
    for size, error in ((1, 0.3), (2, 0.2)):
        point = Iterate(objective=1.0, validation_error=error, feasible=True)
        runs.add("a", 0, [2.0, 1.0], config={"size": size}, iterate=point)
    found, (contender,) = entered(runs, select="validation")
    assert list(found.entered) == [contender.label] == ["a (size=2)"]
    assert contender.tuning.configurations == 2
