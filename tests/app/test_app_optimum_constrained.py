"""The optimum of a constrained problem in records: certified, of feasible points only, and not guessed."""

import pytest
from app_samples import catalogue_with, guest, with_solver

from drobench.app.api import run
from drobench.app.loading import load_dataset
from drobench.app.optimum import find_optimum
from drobench.objective.forms import Constrained
from drobench.registry.models import model_of

QUADRATIC = (
    "dataset=synthetic",
    "dataset.rows=60",
    "dataset.features=4",
    "problem=constrained_quadratic",
    "problem.constraints=30",
    "problem.condition=5",
    "budget.passes=20",
)


def problem_of(config, catalogue):
    return catalogue.problem(config.problem.name).entry.factory(
        config.problem, load_dataset(config, catalogue), model_of(config.model, catalogue)
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_certified_value_is_the_one_the_instance_was_built_from(configure, catalogue, tmp_path, seed):
    problem = problem_of(configure(f"dataset.seed={seed}", base=QUADRATIC), catalogue)
    found = find_optimum(problem, {"seed": seed}, catalogue, tmp_path)
    assert found.reason is None
    assert found.optimum.method == "exact_constrained"
    assert found.optimum.value == pytest.approx(problem.optimal_value, rel=1e-6)
    assert found.optimum.certificate["lower_bound"] <= problem.optimal_value + 1e-12 <= found.optimum.value + 2e-12


@pytest.mark.convergence
def test_a_run_has_a_gap_and_only_where_it_is_feasible(results):
    record = run(*QUADRATIC, solver="gcivr", results=str(results))
    last = record.iterates.last
    assert record.optimum.method == "exact_constrained"
    assert last.feasible
    assert last.gap == pytest.approx(last.objective - record.optimum.value, abs=1e-15)
    assert last.gap >= -1e-6
    # At a weight this small the penalty lets the solution out of the feasible set, where the objective is lower.
    words = ("reformulation.projection=none", "reformulation.alpha=0.05")
    outside = run(*QUADRATIC, *words, solver="gcivr", results=str(results)).iterates.last
    assert outside.objective < record.optimum.value
    assert not outside.feasible
    assert outside.gap is None


def test_an_infeasible_point_below_the_optimum_is_no_reference(configure, catalogue, tmp_path):
    problem = problem_of(configure(base=QUADRATIC), catalogue)
    assert float(problem.form.value(problem.centre)) < problem.optimal_value
    cheat = guest("a_cheat", lambda state, oracle: problem.centre, accepts=(Constrained,), exact=True)
    using = with_solver(catalogue_with(solvers=(cheat,)), "exact_constrained", exact=False)
    found = find_optimum(problem, {}, using, tmp_path)
    assert found.optimum is None
    assert "a_cheat: the point found violates a constraint by" in found.reason


def test_where_rates_decide_there_is_no_optimum_and_the_reason_says_so(configure, catalogue, tmp_path):
    words = ("dataset=communities_twin", "problem=intersectional_fairness", "problem.surrogate=hinge")
    problem = problem_of(configure(*words, base=()), catalogue)
    assert problem.form.convex
    found = find_optimum(problem, {}, catalogue, tmp_path)
    assert found.optimum is None
    assert "scored by rates" in found.reason
