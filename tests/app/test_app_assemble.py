"""One run put together: the form a solver gets, precision, start, optimum."""

import math

import pytest
import torch
from app_samples import GuestConfig, catalogue_with, gradient_step, guest

from drobench.app.assemble import assemble
from drobench.app.cell import run_cell
from drobench.app.optimum import Reference
from drobench.app.prepare import prepare
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum
from drobench.reformulation.routes import NoRouteError
from drobench.registry import NeedsNotMet
from drobench.results.record import Status
from drobench.results.store import ResultStore


def test_single_precision_stays_single(configure, results):
    seen = set()

    def watching(state, oracle):
        value, gradients = oracle.estimate(state.point[None], oracle.draw())
        seen.update({state.point.dtype, value.dtype, gradients.dtype})
        return gradient_step(state, oracle)

    catalogue = catalogue_with(solvers=(guest("watching", watching),))
    record = run_cell(configure("solver=watching", "trainer.dtype=float32", using=catalogue), catalogue)
    assert record.status is Status.BUDGET_SPENT
    assert seen == {torch.float32}
    arrays = ResultStore(results).solution(record.run_id)
    assert arrays["last"].dtype.name == "float32"
    assert arrays["feature_mean"].dtype.name == "float64"
    exact = run_cell(configure("solver=watching", using=catalogue), catalogue)
    assert exact.run_id != record.run_id
    assert record.iterates.last.objective == pytest.approx(exact.iterates.last.objective, rel=1e-5)
    assert record.optimum == exact.optimum


@pytest.mark.parametrize("solver", ["gcivr", "scgd", "unconstrained"])
def test_every_solver_runs_in_single_precision(configure, catalogue, results, solver):
    record = run_cell(configure(f"solver={solver}", "trainer.dtype=float32"), catalogue)
    assert record.status is Status.BUDGET_SPENT
    assert ResultStore(results).solution(record.run_id)["last"].dtype.name == "float32"


def test_the_seed_moves_the_start_of_a_network(configure, catalogue):
    words = ("model=mlp", "model.hidden=[3]", "solver=unconstrained", "budget.steps=1")
    first, second = (run_cell(configure(*words, f"seed={seed}"), catalogue) for seed in (0, 1))
    assert first.iterates.last.objective != second.iterates.last.objective


def test_guests_are_used_in_the_form_they_accept(configure):
    kinds = []

    def watching(state, oracle):
        kinds.append(type(oracle.materialise()))
        return state.point

    guests = catalogue_with(
        solvers=(guest("sum", watching), guest("whole", watching, accepts=(Composite,), config=GuestConfig))
    )
    for name, form, route in (("sum", FiniteSum, "(relaxation)"), ("whole", Composite, "kl_penalty")):
        kinds.clear()
        record = run_cell(configure(f"solver={name}", using=guests), guests)
        assert issubclass(kinds[0], form)
        assert route in record.others["route"][0]


def test_the_line_goes_from_the_data_to_the_task(configure, catalogue, tmp_path):
    prepared = prepare(configure("solver=gcivr", "budget.steps=7"), catalogue)
    assembly = assemble(prepared, tmp_path / "optima")
    assert assembly.dataset.sha256 == prepared.dataset.sha256
    assert assembly.route.names == ["kl_penalty"]
    assert assembly.task.optimum == assembly.reference.optimum.value
    assert assembly.task.budget.steps == 7
    # The solver's variables and the problem's translate into each other.
    assert assembly.problem.form.dimension == assembly.task.recover(assembly.task.start).numel()
    assert [file.suffix for file in (tmp_path / "optima").iterdir()] == [".json"]


def test_a_refused_run_is_not_put_together(configure, tmp_path):
    guests = catalogue_with(solvers=(guest("alone", one_process="it works alone"),))
    prepared = prepare(configure("solver=alone", "trainer=ddp_cpu", "trainer.devices=2", using=guests), guests)
    with pytest.raises(NeedsNotMet, match="it works alone"):
        assemble(prepared, tmp_path)


def test_a_solver_without_a_way_is_refused_before_the_optimum_is_sought(configure, tmp_path, monkeypatch):
    guests = catalogue_with(solvers=(guest("foreign", accepts=(GuestConfig,)),))
    prepared = prepare(configure("solver=foreign", using=guests), guests)
    with pytest.raises(NoRouteError, match="GuestConfig"):
        assemble(prepared, tmp_path / "optima")
    assert not (tmp_path / "optima").exists()


def test_an_optimum_that_is_known_is_not_sought_again(configure, catalogue, tmp_path):
    known = Reference(None, "nobody looked")
    assembly = assemble(prepare(configure(), catalogue), tmp_path / "optima", known)
    assert assembly.reference is known
    assert assembly.task.optimum is None
    assert not (tmp_path / "optima").exists()


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        (("budget.steps=12",), (math.inf, math.inf, 12)),
        (("budget.steps=12", "budget.passes=8"), (8.0, math.inf, math.inf)),
        (("budget.steps=12", "reformulation.stage_passes=3"), (3.0, math.inf, math.inf)),
        (("budget.steps=null", "budget.seconds=6"), (math.inf, 6.0, math.inf)),
    ],
)
def test_a_stage_gets_its_share_of_the_first_limit(configure, catalogue, tmp_path, words, limits):
    task = assemble(prepare(configure(*words), catalogue), tmp_path, Reference(None, "not needed")).task
    assert (task.stage_passes, task.stage_seconds, task.stage_steps) == limits
