"""From a run to its record: every promised field, the curve, the solution."""

import json
import os

import polars
import pytest
import safetensors.numpy
import torch
from app_samples import GuestSolver, catalogue_with, contradictory_table, gradient_step, guest, uphill_step

from drobench.app.cell import run_cell
from drobench.app.loading import load_dataset
from drobench.app.prepare import prepare
from drobench.app.recording import record_of
from drobench.registry.models import model_of
from drobench.results.record import ITERATE_FIELDS, Outcome, Status
from drobench.results.store import ResultStore


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


FIELDS = {
    "schema", "run_id", "status", "reason", "seed", "started_at", "solver", "problem", "dataset", "model", "budget",
    "trainer", "iterates", "optimum", "oracle", "communication", "seconds", "memory", "environment",
}  # fmt: skip


COUNTERS = {"inner_values", "inner_jacobians", "loss_gradients", "constraint_checks", "projections", "passes"}


@pytest.fixture
def payload(configure, catalogue, results):
    """The record of a small run, as any JSON parser would read it."""
    record = run_cell(configure("solver=scgd", "seed=3", "budget.steps=null", "budget.passes=4"), catalogue)
    text = (results / record.run_id / "record.json").read_text()
    return json.loads(text, parse_constant=refuse)


def test_a_record_has_every_promised_field(payload):
    assert payload.keys() >= FIELDS
    assert payload["schema"] == 1
    assert payload["status"] == "budget_spent"
    assert payload["seed"] == 3
    for kind, name in (("solver", "scgd"), ("problem", "kl_classification"), ("dataset", "synthetic")):
        assert payload[kind]["name"] == name
        assert payload[kind]["distribution"] == "drobench"
        assert payload[kind]["version"]
        assert "name" not in payload[kind]["config"]
    assert (payload["dataset"]["rows"], payload["dataset"]["twin"]) == (60, False)
    assert len(payload["dataset"]["sha256"]) == 64
    assert payload["problem"]["config"]["l2"] == 0.1
    assert payload["model"]["name"] == "linear"
    assert payload["budget"]["passes"] == 4
    assert payload["trainer"]["dtype"] == "float64"
    assert set(payload["optimum"]) == {"value", "method", "certificate"}
    assert payload["oracle"].keys() >= COUNTERS
    assert set(payload["communication"]) == {"rounds", "bytes"}
    assert set(payload["seconds"]) == {"solver", "evaluation", "setup", "total"}
    assert payload["memory"]["peak_bytes"] > 1e6
    assert payload["started_at"].endswith("+00:00")


def test_the_scored_iterates_are_complete_and_consistent(payload):
    iterates = payload["iterates"]
    assert set(iterates) == {"last", "average", "best_feasible"}
    optimum = payload["optimum"]["value"]
    for iterate in iterates.values():
        assert iterate.keys() >= set(ITERATE_FIELDS)
        assert iterate["gap"] == pytest.approx(iterate["objective"] - optimum, abs=1e-12)
        assert iterate["gap"] >= 0
        # Without constraints violations do not exist, and every point is feasible.
        assert iterate["train_max_violation"] is None
        assert iterate["test_max_violation"] is None
        assert iterate["feasible"] is True
        assert all(0 <= iterate[f"{split}_error"] <= 1 for split in ("train", "validation", "test"))
        assert iterate["stationarity"] >= 0
    assert iterates["last"]["step"] == iterates["average"]["step"] >= iterates["best_feasible"]["step"]


def test_the_environment_says_where_and_with_what(payload):
    environment = payload["environment"]
    assert (environment["threads"], environment["world_size"]) == (1, 1)
    assert environment["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert {"python", "drobench", "numpy", "pytorch-lightning"} <= environment["versions"].keys()
    assert environment["hardware"]["cores"] == os.cpu_count()
    assert "git_revision" in environment
    assert "git_dirty" in environment


def test_the_times_add_up(payload):
    seconds = payload["seconds"]
    assert all(value > 0 for value in seconds.values())
    assert seconds["solver"] + seconds["evaluation"] + seconds["setup"] <= seconds["total"]


def test_the_record_tells_its_route_and_which_iterate_is_last(payload):
    assert payload["route"] == ["kl_penalty"]
    assert payload["output"] == "last"
    assert payload["optimum_reason"] is None


def test_the_curve_has_a_row_per_evaluation(configure, catalogue, results):
    words = ("solver=unconstrained", "budget.steps=null", "budget.passes=4", "evaluation.every_passes=2")
    record = run_cell(configure(*words), catalogue)
    curve = polars.read_parquet(results / record.run_id / "curve.parquet")
    expected = {"step", "passes", "oracle_calls", "solver_seconds", "communication_rounds", "communication_bytes"}
    assert expected | COUNTERS | set(ITERATE_FIELDS) <= set(curve.columns)
    assert curve["step"].to_list() == [0, 2, 4]
    assert curve["passes"].to_list() == [0.0, 2.0, 4.0]
    assert curve["solver_seconds"].is_sorted()
    assert curve["objective"][-1] == record.iterates.last.objective
    assert curve["gap"][0] == pytest.approx(curve["objective"][0] - record.optimum.value, abs=1e-12)
    assert curve["feasible"].to_list() == [True, True, True]
    assert "test_worst_class_error" in curve.columns


def test_the_solution_holds_the_scored_points_and_the_scaling(configure, catalogue, results):
    record = run_cell(configure("solver=scgd", "dataset.standardize=true"), catalogue)
    arrays = safetensors.numpy.load_file(results / record.run_id / "solution.safetensors")
    assert set(arrays) >= {"last", "average", "best_feasible", "feature_mean", "feature_scale"}
    points = [arrays[name] for name in ("last", "average", "best_feasible")]
    assert {point.shape for point in points} == {(4,)}
    assert {point.dtype.name for point in points} == {"float64"}
    assert arrays["feature_mean"].shape == arrays["feature_scale"].shape == (3,)
    assert abs(arrays["feature_mean"]).max() > 1e-3
    # The stored point is the one that was scored.
    config = configure("dataset.standardize=true")
    dataset = load_dataset(config, catalogue)
    problem = catalogue.problem("kl_classification").entry.factory(
        config.problem, dataset, model_of(config.model, catalogue)
    )
    for name in ("last", "average", "best_feasible"):
        value = float(problem.form.value(torch.from_numpy(arrays[name])))
        assert value == pytest.approx(getattr(record.iterates, name).objective, abs=1e-14)


def test_a_solver_without_average_has_none(configure, results):
    catalogue = catalogue_with(solvers=(guest("plain"),))
    record = run_cell(configure("solver=plain", using=catalogue), catalogue)
    assert record.iterates.average is None
    assert "average" not in ResultStore(results).solution(record.run_id)


def test_a_record_says_what_the_solver_claims_and_whether_it_was_rebuilt(catalogue, configure):
    claims = {
        name: record_of(prepare(configure(f"solver={name}"), catalogue), Status.FAILED, "not run").solver.others
        for name in ("scgd", "sevr", "minibatch_dro")
    }
    assert claims["scgd"] == {"rate": catalogue.solver("scgd").entry.rate}
    assert claims["sevr"]["reconstructed"] is True
    assert claims["minibatch_dro"] == {}


def test_a_run_that_ends_above_its_start_is_recorded_as_worse(configure, results):
    catalogue = catalogue_with(solvers=(guest("plain"), guest("uphill", uphill_step)))
    ended = {name: run_cell(configure(f"solver={name}", using=catalogue), catalogue) for name in ("plain", "uphill")}
    assert {record.status for record in ended.values()} == {Status.BUDGET_SPENT}
    assert {name: record.outcome for name, record in ended.items()} == {
        "plain": Outcome.OK,
        "uphill": Outcome.WORSE_THAN_START,
    }
    text = (results / ended["uphill"].run_id / "record.json").read_text()
    assert json.loads(text)["outcome"] == "worse_than_start"


def test_the_last_iterate_is_judged_and_not_the_last_row_of_the_curve(configure, results):
    class Fickle(GuestSolver):
        """Goes downhill, and hands over another point when it is asked for the second time at the end."""

        asked = 0

        def solution(self, state):
            self.asked += state.steps == 5
            return state.point + (5.0 if self.asked > 1 else 0.0)

    entry = guest("fickle", factory=lambda config: Fickle(gradient_step))
    catalogue = catalogue_with(solvers=(entry,))
    record = run_cell(configure("solver=fickle", using=catalogue), catalogue)
    objectives = ResultStore(results).curve(record.run_id)["objective"]
    assert objectives[-1] < objectives[0] < record.iterates.last.objective
    assert record.outcome is Outcome.WORSE_THAN_START


@pytest.mark.parametrize("solver", ["scgd", "leaving"])
def test_a_start_at_the_certified_optimum_is_recorded_as_optimal(configure, tmp_path, solver):
    catalogue = catalogue_with(solvers=(guest("leaving", lambda state, oracle: state.point + 1.0),))
    own = ("solver.step_size=0.1",) if solver == "scgd" else ()
    words = (*own, *contradictory_table(tmp_path), "budget.target_gap=0.01")
    record = run_cell(configure(f"solver={solver}", *words, using=catalogue, base=()), catalogue)
    assert record.optimum is not None
    assert record.outcome is Outcome.START_IS_OPTIMAL
    # Relative to such a start every rounding error would be a target reached.
    assert record.status is Status.BUDGET_SPENT


@pytest.mark.parametrize("outcome", [Status.FAILED, Status.SKIPPED])
def test_a_run_without_a_scored_iterate_has_no_outcome(catalogue, configure, outcome):
    assert record_of(prepare(configure(), catalogue), outcome, "not run").outcome is None
