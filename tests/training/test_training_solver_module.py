"""A solver under Lightning: what is evaluated, counted, and when it ends."""

import math
import time

import pytest
import torch

from drobench.objective.oracle import Oracle
from drobench.problem.metrics import SplitScore
from drobench.registry.time_limit import time_limit
from drobench.results.record import Status
from drobench.training.loop import StrayStop


def stay(point, step):
    return point


class Counted(Oracle):
    """As much of an oracle as a told solver needs, with ten draws to a pass."""

    samples = 10
    constraints = 0

    def __init__(self) -> None:
        super().__init__(None, 0, torch.zeros(2, dtype=torch.float64))

    def estimate(self, points, rows):
        self.counters.sample_calls += 1


@pytest.mark.parametrize("every", [1.0, 0.25, 3.0])
def test_the_curve_has_the_start_and_a_row_at_every_mark(bench, told, tmp_path, every):
    """Steps of 7 rows among 300: a row stands at the first step that reaches a multiple of `every` passes."""
    module = bench.train(bench.task(told(stay, rows=7), passes=9, every_passes=every), tmp_path)
    marks = [every * number for number in range(1, round(9 / every) + 1)]
    expected = [0] + [math.ceil(mark * bench.samples / 7) for mark in marks]
    assert [row["step"] for row in module.curve] == expected
    assert [row["passes"] for row in module.curve] == [step * 7 / 300 for step in expected]


def test_the_first_row_is_the_start_before_anything_was_counted(bench, tmp_path):
    module = bench.train(bench.task(bench.solver("gcivr"), steps=3, optimum=0.125), tmp_path)
    first = module.curve[0]
    assert first["objective"] == float(bench.problem.form.value(bench.start))
    assert first["gap"] == first["objective"] - 0.125
    counted = ("step", "passes", "oracle_calls", "solver_seconds", "communication_rounds", "communication_bytes")
    assert {first[name] for name in (*counted, *module.oracle.counters.as_dict())} == {0}


def test_a_run_that_ends_between_marks_is_evaluated_where_it_ends(bench, told, tmp_path):
    module = bench.train(bench.task(told(stay), steps=14), tmp_path)
    assert [row["step"] for row in module.curve] == [0, 10, 14]


@pytest.mark.parametrize("name", ["gcivr", "scgd", "adagrad"])
def test_rows_of_the_curve_hold_the_counts_and_scores_of_their_step(bench, tmp_path, name):
    module = bench.train(bench.task(bench.solver(name), passes=4), tmp_path)
    assert len(module.curve) >= 4
    for row in module.curve[1:]:
        point, oracle = bench.alone(name, row["step"])
        assert {key: row[key] for key in oracle["counters"]} == oracle["counters"]
        assert row["passes"] == oracle["counters"]["sample_calls"] / bench.samples
        assert row["oracle_calls"] == oracle["counters"]["sample_calls"]
        assert row["objective"] == float(bench.problem.form.value(point))
        assert row["validation_error"] == bench.problem.score(point, "validation").error
        assert row["test_worst_class_error"] == bench.problem.score(point, "test").extra["worst_class_error"]


def test_every_row_is_reported_as_it_is_made(bench, tmp_path):
    seen = []
    module = bench.train(
        bench.task(bench.solver("scgd"), passes=3), tmp_path, on_evaluation=lambda row: seen.append(dict(row))
    )
    assert seen == module.curve
    assert len(seen) == 4


@pytest.mark.parametrize("steps", [1, 2, 99, 100, 257])
@pytest.mark.parametrize("name", ["gcivr", "adam"])
def test_a_number_of_steps_is_kept_exactly(bench, tmp_path, name, steps):
    module = bench.train(bench.task(bench.solver(name), steps=steps), tmp_path)
    assert module.steps == steps
    assert module.curve[-1]["step"] == steps
    assert module.final["last"][0].step == steps
    assert module.verdict.status is Status.BUDGET_SPENT
    assert module.verdict.reason == f"steps {steps} of {steps}"


@pytest.mark.parametrize("name", ["gcivr", "scgd", "adagrad"])
@pytest.mark.parametrize("limit", [{"oracle_calls": 1234}, {"passes": 4.1}])
def test_calls_and_passes_are_exceeded_by_less_than_one_step(bench, tmp_path, name, limit):
    module = bench.train(bench.task(bench.solver(name), every_passes=100.0, **limit), tmp_path)
    allowed = limit.get("oracle_calls", limit.get("passes", 0.0) * bench.samples)
    _, oracle = bench.alone(name, module.steps - 1)
    assert oracle["counters"]["sample_calls"] < allowed <= module.oracle.counters.sample_calls
    assert module.verdict.status is Status.BUDGET_SPENT
    assert module.verdict.reason.startswith(next(iter(limit)))


def test_seconds_of_the_solver_end_a_run(bench, told, tmp_path):
    def act(point, step):
        time.sleep(0.05)
        return point

    module = bench.train(bench.task(told(act), seconds=0.3), tmp_path)
    assert module.verdict.status is Status.BUDGET_SPENT
    assert module.verdict.reason.startswith("seconds")
    assert module.clock.seconds["solver"] >= 0.3
    # Each step lasts 0.05 s at least, so the sixth ends beyond the limit.
    assert 1 <= module.steps <= 6


def test_a_slow_evaluation_does_not_use_up_the_seconds(bench, told, watched, trained_by_fake_time, tmp_path):
    problem = watched(bench.problem, lambda: trained_by_fake_time.advance(1000.0))
    module = bench.train(bench.task(told(stay), problem=problem, seconds=100.0, steps=25), tmp_path)
    assert module.verdict.reason == "steps 25 of 25"


def test_a_solver_that_touches_no_sample_ends_all_the_same(bench, tmp_path):
    """The exact reference reads the whole problem at once, so no limit on passes will ever stop it."""
    with time_limit(10.0):
        module = bench.train(bench.task(bench.solver("exact_convex"), passes=3), tmp_path)
    assert module.verdict is not None


def test_a_target_gap_is_relative_to_the_start_and_means_convergence(bench, tmp_path):
    optimum = bench.optimum()
    module = bench.train(bench.task(bench.solver("gcivr"), passes=200, target_gap=1e-4, optimum=optimum), tmp_path)
    assert module.verdict.status is Status.CONVERGED
    assert "target_gap 0.0001" in module.verdict.reason
    relative = [row["gap"] / module.curve[0]["gap"] for row in module.curve]
    assert relative[-1] <= 1e-4 < min(relative[:-1])
    assert module.relative_gap(module.final["last"][0]) == relative[-1]
    assert module.curve[-1]["passes"] < 200


def test_a_target_stationarity_means_convergence(bench, tmp_path):
    module = bench.train(bench.task(bench.solver("gcivr"), passes=200, target_stationarity=1e-5), tmp_path)
    assert module.verdict.status is Status.CONVERGED
    assert module.curve[-1]["stationarity"] <= 1e-5 < min(row["stationarity"] for row in module.curve[:-1])


def test_without_an_optimum_a_target_gap_is_never_met(bench, tmp_path):
    module = bench.train(bench.task(bench.solver("gcivr"), passes=5, target_gap=0.9999), tmp_path)
    assert module.verdict.status is Status.BUDGET_SPENT


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_point_that_is_no_number_ends_the_run(bench, told, tmp_path, broken):
    def act(point, step):
        return point * 0.0 + broken if step == 5 else point + 0.01

    module = bench.train(bench.task(told(act), steps=10**9, every_passes=0.4), tmp_path)
    assert module.verdict.status is Status.NON_FINITE
    assert module.steps < 100
    assert not math.isfinite(module.final["last"][0].objective)
    assert module.final["last"][0].gap is None
    # The iterate of step 4 was looked at and stays the best.
    assert module.final["best_feasible"][0].step in (0, 4)
    assert bool(module.final["best_feasible"][1].isfinite().all())


@pytest.fixture
def patience():
    """Return how many lost evaluations in a row end a run."""
    from drobench.training.loop import _PATIENCE

    return _PATIENCE


def lost_at(evaluations):
    """Return what a solver does that is nowhere at the given evaluations, one after every ten steps."""

    def act(point, step):
        return torch.full_like(point, math.nan if math.ceil(step / 10) in evaluations else 0.01 * step)

    return act


def test_a_solver_that_finds_back_in_time_goes_on(bench, told, patience, tmp_path):
    """Lost once less than allowed, back for one evaluation, and lost again: the count starts anew."""
    once, again = range(2, 1 + patience), range(2 + patience, 1 + 2 * patience)
    task = bench.task(told(lost_at({*once, *again})), steps=10 * (2 * patience + 2))
    module = bench.train(task, tmp_path)
    assert [not math.isfinite(row["objective"]) for row in module.curve].count(True) == 2 * (patience - 1)
    assert module.verdict.status is Status.BUDGET_SPENT
    assert module.steps == 10 * (2 * patience + 2)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_solver_that_stays_lost_is_given_up(bench, told, patience, tmp_path, resumed):
    def task(steps):
        return bench.task(told(lost_at(range(3, 1000))), steps=steps)

    if resumed:
        # Ends in the middle of the lost evaluations, the last of which no checkpoint holds.
        bench.train(task(10 * (2 + patience - 1)), tmp_path, checkpoint_steps=1)
    module = bench.train(task(10**6), tmp_path)
    assert module.verdict.status is Status.NON_FINITE
    assert module.steps == 10 * (2 + patience)
    assert [row["step"] for row in module.curve] == list(range(0, 10 * (3 + patience), 10))
    assert module.final["best_feasible"][0].step in (0, 10, 20)


def test_a_solver_that_explodes_has_diverged(bench, told, tmp_path):
    module = bench.train(
        bench.task(told(lambda point, step: point + 10.0**step), steps=10**9, every_passes=0.1), tmp_path
    )
    assert module.verdict.status is Status.DIVERGED
    assert "rose from" in module.verdict.reason
    assert math.isfinite(module.final["last"][0].objective)
    assert module.final["last"][0].objective > 1e3


def test_a_lost_run_is_not_said_to_have_spent_its_budget(bench, told, tmp_path):
    module = bench.train(bench.task(told(lambda point, step: point + 1e6), steps=10), tmp_path)
    assert module.verdict.status is Status.DIVERGED


def test_an_error_in_a_step_comes_out_as_it_is_and_spoils_nothing(bench, told, tmp_path):
    class MisstepError(Exception):
        pass

    def act(point, step):
        if step == 13:
            raise MisstepError("in step 13")
        return point

    with pytest.raises(MisstepError, match="in step 13"):
        bench.train(bench.task(told(act), steps=20), tmp_path)
    assert bench.train(bench.task(told(stay), steps=20), tmp_path).steps == 20


@pytest.mark.parametrize("projects", [True, False])
def test_the_last_recovery_is_the_only_one_that_counts_as_a_projection(bench, told, tmp_path, projects):
    recovered = []

    def recover(point):
        recovered.append(point)
        return point + 1.0

    task = bench.task(told(stay, average=True), steps=30, recover=recover, projects=projects)
    module = bench.train(task, tmp_path)
    assert len(recovered) >= 5
    assert module.counts()["projections"] == int(projects)
    assert [row["projections"] for row in module.curve] == [0, 0, 0, 0]
    assert torch.equal(module.final["last"][1], bench.start + 1.0)
    assert torch.equal(module.final["average"][1], bench.start + 1.0)
    assert module.final["last"][0].objective == float(bench.problem.form.value(bench.start + 1.0))


def test_last_average_and_best_are_kept_apart(bench, told, tmp_path):
    """The objective falls until step 20 and rises again; the validation error is not known."""
    direction = torch.zeros_like(bench.start)
    direction[0] = -bench.problem.form.smooth_gradient(bench.start)[0].sign()

    class NoValidation(type(bench.problem)):
        def __init__(self, problem):
            self.__dict__.update(problem.__dict__)
            self.splits = {**problem.splits, "validation": None}

    def act(point, step):
        return point + (0.005 if step <= 20 else -0.01) * direction

    task = bench.task(told(act, average=True), steps=40, problem=NoValidation(bench.problem))
    module = bench.train(task, tmp_path)
    assert set(module.final) == {"last", "average", "best_feasible"}
    (last, point), (average, mean), (best, best_point) = (
        module.final[name] for name in ("last", "average", "best_feasible")
    )
    path = [bench.start]
    for step in range(1, 41):
        path.append(act(path[-1], step))
    assert torch.equal(point, path[40])
    torch.testing.assert_close(mean, torch.stack(path[1:]).mean(dim=0), rtol=0, atol=1e-14)
    assert torch.equal(best_point, path[20])
    assert best.step == 20
    assert best.objective == min(row["objective"] for row in module.curve) < last.objective
    assert last.step == average.step == 40
    for scores, at in ((last, point), (average, mean), (best, best_point)):
        assert scores.objective == float(bench.problem.form.value(at))


def test_a_solver_without_average_has_none(bench, told, tmp_path):
    module = bench.train(bench.task(told(stay), steps=3), tmp_path)
    assert set(module.final) == {"last", "best_feasible"}


def test_the_best_feasible_iterate_has_the_lowest_validation_error_among_feasible_ones(
    told, scripted_problem, bench, tmp_path
):
    """Scripted by the first coordinate, which is the number of the step in tens."""
    violations = {0: 0.5, 1: -0.1, 2: 0.0, 3: 0.1, 4: -0.2}
    errors = {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2, 4: 0.35}

    def at(point):
        return round(float(point[0]))

    problem = scripted_problem(
        {
            "train": lambda point: SplitScore(max_violation=violations[at(point)]),
            "validation": lambda point: SplitScore(error=errors[at(point)]),
        }
    )
    task = bench.task(
        told(lambda point, step: torch.tensor([step / 10, 0.0], dtype=torch.float64)),
        problem=problem,
        start=torch.zeros(2, dtype=torch.float64),
        build_oracles=[lambda shard: Counted()],
        steps=40,
        optimum=0.0,
    )
    module = bench.train(task, tmp_path)
    assert [row["feasible"] for row in module.curve] == [False, True, True, False, True]
    assert [row["gap"] for row in module.curve] == [None, 0.5, 2.0, None, 8.0]
    assert module.final["best_feasible"][0].step == 20
    assert module.final["best_feasible"][0].validation_error == 0.3


def test_no_iterate_is_the_best_feasible_one_where_none_is_feasible(told, scripted_problem, bench, tmp_path):
    task = bench.task(
        told(stay),
        problem=scripted_problem({"train": SplitScore(max_violation=0.1)}),
        start=torch.ones(2, dtype=torch.float64),
        build_oracles=[lambda shard: Counted()],
        steps=10,
    )
    assert set(bench.train(task, tmp_path).final) == {"last"}


@pytest.mark.parametrize("where", ["init", "step", "solution", "average"])
def test_a_solver_that_raises_stop_iteration_fails(bench, told, tmp_path, where):
    """Lightning takes that exception for the end of the data, and would begin again and again."""

    class Stopping(told):
        pass

    def stop(*_):
        raise StopIteration("enough")

    setattr(Stopping, where, stop)
    if where == "init":
        stop.__annotations__ = told.init.__annotations__
    with pytest.raises(StrayStop, match="raised StopIteration") as raised, time_limit(20):
        bench.train(bench.task(Stopping(lambda point, step: point), steps=5), tmp_path)
    assert isinstance(raised.value.__cause__, StopIteration)
