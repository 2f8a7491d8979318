"""The tables of the convergence page: what a run reached, the choice of a step, goals."""

import math
from types import SimpleNamespace

import polars
import pytest

from benchmarks.studies.convergence import (
    GOALS,
    Goal,
    Run,
    best_step,
    is_of_the_sweep,
    method_name,
    problem_name,
    read_run,
)
from drobench.app.composer import Composer
from drobench.app.config import data_dir, hydra_ready, register, resolve
from drobench.app.sweep_file import load_sweep
from drobench.registry import load_catalogue


def run_of(values, seed=0, step=1.0, absolute=None):
    passes = [10.0 * number for number in range(len(values))]
    return Run(seed, step, passes, values, absolute or values, passes[-1])


def test_a_target_is_reached_at_the_first_evaluation_within_it():
    run = run_of([1.0, 1e-3, 1e-5, 1e-4, 1e-7])
    assert [run.passes_to(target) for target in (1e-2, 1e-4, 1e-6, 1e-8)] == [10.0, 20.0, 40.0, math.inf]
    assert run_of([1.0, 0.5], absolute=[1e-3, 1e-6]).passes_to_absolute(1e-5) == 10.0


def test_what_a_run_has_after_some_passes_is_its_last_value_until_then():
    run = run_of([1.0, 1e-3, 1e-5, 1e-4, 1e-7])
    assert (run.after(30.0), run.after(39.5), run.after(5.0)) == (1e-4, 1e-7, 1.0)
    assert run_of([1.0, math.nan]).after(40.0) == math.inf


def test_a_run_that_failed_before_it_was_looked_at_has_reached_nothing():
    record = SimpleNamespace(seed=3, solver=SimpleNamespace(config={"step_scale": 0.3}), optimum=None)
    run = read_run(record, polars.DataFrame())
    assert (run.seed, run.passes_to(1.0), run.after(40.0), run.spent) == (3, math.inf, math.inf, 0.0)


def test_runs_that_are_not_of_the_sweep_have_no_place_in_its_tables():
    def record(dataset="synthetic", problem="kl_classification", **config):
        return SimpleNamespace(
            dataset=SimpleNamespace(name=dataset),
            problem=SimpleNamespace(name=problem),
            solver=SimpleNamespace(config=config),
        )

    assert is_of_the_sweep(record(step_scale=1.0))
    assert not is_of_the_sweep(record(learning_rate=1.0))
    assert not is_of_the_sweep(record(dataset="digits", step_scale=1.0))
    assert not is_of_the_sweep(record(problem="group_classification", step_scale=1.0))


def test_the_best_step_reaches_the_goal_most_often_and_then_soonest():
    runs = [
        *(run_of([1.0, 1e-7], seed, 3.0) for seed in range(2)),
        run_of([1.0, 1e-2], 2, 3.0),
        *(run_of([1.0, 1e-2, 1e-7], seed, 1.0) for seed in range(3)),
        *(run_of([1.0, 1e-2, 1e-3, 1e-7], seed, 0.3) for seed in range(3)),
    ]
    tuned = best_step(runs)
    assert tuned.step == 1.0
    assert [run.seed for run in tuned.runs] == [0, 1, 2]
    # What all nine runs cost, those of the steps that were not chosen included.
    assert (tuned.tried, tuned.spent) == (3, 2 * 10.0 + 10.0 + 3 * 20.0 + 3 * 30.0)
    assert tuned.seeds_within(1e-6) == "20.0 (20.0 to 20.0)"
    assert best_step(runs[:3]).seeds_within(1e-6) == "2 of 3 seeds"
    assert best_step(runs[2:3]).seeds_within(1e-6) == "none"


def test_where_nothing_reaches_the_goal_the_smallest_gap_decides():
    runs = [run_of([1.0, gap], seed, step) for seed in range(3) for gap, step in ((0.3, 0.1), (0.1, 1.0), (0.5, 3.0))]
    assert best_step(runs).step == 1.0


def test_a_goal_is_judged_in_every_seed():
    goal = Goal("a problem", "in words", 1e-6, 15.0)
    assert goal.passes([run_of([1.0, 1e-7], 1), run_of([1.0, 1e-2, 1e-7], 0)]) == [20.0, 10.0]


class Named:
    """As much of a record as names look at."""

    def __init__(self, config, rows):
        self.solver = type("Solver", (), {"name": config.solver.name, "config": vars(config.solver)})
        self.problem = type("Problem", (), {"name": config.problem.name, "config": vars(config.problem)})
        self.dataset = type("Dataset", (), {"rows": rows})


@pytest.fixture(scope="module")
def cells():
    """Return one cell of the sweep for each problem and method."""
    catalogue = load_catalogue()
    register(catalogue)
    chosen = {}
    for words in load_sweep(data_dir("sweeps") / "convergence.yaml").cells:
        if "seed=0" in words and "solver.step_scale=1.0" in words:
            chosen[tuple(words)] = words
    with hydra_ready():
        composer = Composer(catalogue)
        configs = [resolve(composer.compose(words)) for words in chosen.values()]
    return [Named(config, config.dataset.rows) for config in configs]


def test_the_sweep_has_the_problems_of_the_goals_and_no_two_cells_of_one_name(cells):
    names = [(problem_name(cell), method_name(cell)) for cell in cells]
    assert len(set(names)) == len(names)
    assert {(goal.problem, "gcivr") for goal in GOALS} <= set(names)
