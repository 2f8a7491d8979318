"""One configuration per solver."""

from comparison_samples import order

from drobench.results.comparison.targets import Target
from drobench.results.record import Iterate, Status


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
