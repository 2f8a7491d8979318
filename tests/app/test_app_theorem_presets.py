"""The presets named after the paper's theorems: corrected constants in the configuration, and what they reach."""

import math

import pytest

from drobench.app.assemble import assemble
from drobench.app.cell import run_cell
from drobench.app.prepare import prepare
from drobench.registry.models import model_of
from drobench.results.record import Status

CONVEX = ("kl_convex", "chi2_convex")
NONCONVEX = ("kl_nonconvex", "chi2_nonconvex")


@pytest.fixture
def preset(configure):
    """Compose the preset of a theorem."""
    return lambda theorem, *words: configure(f"experiment=theorem_{theorem}", *words, base=())


@pytest.fixture
def form(preset, catalogue, tmp_path):
    """Return the form that the preset's solver works on."""
    return lambda theorem, *words: (
        assemble(prepare(preset(theorem, *words), catalogue), tmp_path).task.build_oracles[-1].args[0]
    )


@pytest.mark.parametrize("theorem", [*CONVEX, *NONCONVEX])
def test_the_theorems_on_divergences_are_followed_to_the_letter(preset, theorem):
    solver = preset(theorem).solver
    assert (solver.name, solver.step_rule, solver.step_scale, solver.output) == ("gcivr", "theorem", 1.0, "random")
    assert (solver.replacement, solver.monotone, solver.step_size) == (True, False, None)
    convex = theorem in CONVEX
    assert (solver.schedule, solver.restarts) == (("square_root", 7) if convex else ("adaptive", None))


@pytest.mark.parametrize("theorem", CONVEX)
@pytest.mark.convergence
def test_the_stages_reach_the_accuracy_they_are_made_for(preset, catalogue, theorem):
    words = ("dataset.rows=400", "problem.l2=0.1", "solver.restarts=3")
    strength = () if theorem == "kl_convex" else ("solver.strong_convexity=0.1",)
    record = run_cell(preset(theorem, *words, *strength), catalogue)
    assert (record.status, record.reason) == (Status.BUDGET_SPENT, "the method has come to its end")
    start = 0.02  # less than what the origin is off by
    assert 0.0 <= record.iterates.last.gap <= math.exp(-3) * start


@pytest.mark.parametrize("theorem", NONCONVEX)
@pytest.mark.convergence
def test_the_theorems_without_convexity_approach_a_stationary_point(preset, catalogue, theorem):
    curve = []
    config = preset(theorem, "dataset.rows=400", "budget.passes=100", "solver.output=last")
    record = run_cell(config, catalogue, on_evaluation=curve.append)
    assert record.iterates.last.gap is None
    assert record.iterates.last.stationarity < 0.2 * curve[0]["stationarity"]


def test_the_width_of_the_constrained_theorem_is_that_of_its_stages(preset, form):
    config = preset("wasserstein")
    assert config.reformulation.smoothing_error == math.exp(-config.solver.restarts)
    composite = form("wasserstein")
    # 2m + 1 constraints, and the one that is always zero.
    assert composite.terms == 2 * 100 + 2
    assert composite.gamma == pytest.approx(math.exp(-3) / math.log(202))
    # Any weight above 1 + radius is exact; G / rho, which the theorem asks for, is of no use here.
    assert composite.alpha > 1.0 + config.problem.radius


@pytest.mark.convergence
def test_the_weight_is_above_what_the_theorem_asks_for_and_the_step_is_that_of_the_curvature(preset, form, catalogue):
    config = preset("constrained")
    dataset = catalogue.dataset("synthetic").entry.factory(config.dataset)
    problem = catalogue.problem("constrained_quadratic").entry.factory(
        config.problem, dataset, model_of(config.model, catalogue)
    )
    needed = problem.lipschitz / problem.rho
    composite = form("constrained")
    assert needed < composite.alpha == config.reformulation.alpha < 1.05 * needed
    assert config.reformulation.smoothing_error == math.exp(-config.solver.restarts)
    assert composite.gamma == pytest.approx(math.exp(-3) / math.log(201))
    curvature = problem.curvature + composite.alpha**2 / (4.0 * composite.gamma)
    assert config.solver.step_size == pytest.approx(1.0 / curvature, rel=0.02)
    assert config.solver.strong_convexity == problem.curvature


@pytest.mark.parametrize(
    ("theorem", "words"),
    [("wasserstein", ("solver.stage_epochs=60", "dataset.rows=50")), ("constrained", ())],
)
@pytest.mark.convergence
def test_the_constrained_theorem_ends_feasible_and_within_its_accuracy(preset, catalogue, theorem, words):
    record = run_cell(preset(theorem, *words), catalogue)
    last = record.iterates.last
    assert last.feasible
    assert 0.0 <= last.gap <= math.exp(-3)
    assert record.oracle.projections == 1
