"""The plan of a sweep: its cells, what is finished, how long the others take."""

import json
from dataclasses import dataclass

import pytest
from app_samples import altered, catalogue_with, guest

from drobench.app.cell import fail_cell, run_cell
from drobench.app.loading import LastDataset
from drobench.app.prepare import prepare
from drobench.app.sweep_file import find_sweep, load_sweep
from drobench.app.sweep_plan import estimate_seconds, plan
from drobench.errors import DrobenchError
from drobench.registry import ProblemEntry
from drobench.results.record import Status


def test_groups_are_chosen_before_their_settings(planned):
    cells = planned("grid: {solver.batch: [3], solver: [scgd]}").remaining
    assert [(cell.config.solver.name, cell.config.solver.batch) for cell in cells] == [("scgd", 3)]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("solver.step_size", "null", None),
        ("solver.step_size", "1.0e-3", 1e-3),
        ("dataset.standardize", "true", True),
        ("dataset.split", "[0.5, 0.25, 0.25]", [0.5, 0.25, 0.25]),
        ("problem.loss", "sigmoid", "sigmoid"),
    ],
)
def test_every_kind_of_value_arrives_as_it_was_written(planned, key, value, expected):
    (cell,) = planned(f"grid: {{{key}: [{value}]}}").remaining
    group, name = key.split(".")
    assert getattr(getattr(cell.config, group), name) == expected


@dataclass
class FileConfig:
    """Settings with a path."""

    path: str = ""


@pytest.mark.parametrize("path", ["with space.csv", "a, b=(c).csv", "it's [1].csv", "ünïcode.csv"])
def test_a_text_with_marks_arrives_as_it_was_written(planned, path):
    using = catalogue_with(solvers=(guest("reader", config=FileConfig),))
    (cell,) = planned(f"grid: {{solver: [reader], solver.path: [{json.dumps(path)}]}}", using=using).remaining
    assert cell.config.solver.path == path


def test_labels_say_what_distinguishes_a_cell(planned):
    labels = [cell.label for cell in planned("grid: {solver: [gcivr, scgd], seed: [0, 1]}").remaining]
    assert labels == ["solver=gcivr seed=0", "solver=gcivr seed=1", "solver=scgd seed=0", "solver=scgd seed=1"]
    assert planned("parts: [{}]", head="").remaining[0].label == "the only cell"


def test_the_same_run_twice_in_a_sweep_is_refused(planned):
    with pytest.raises(DrobenchError, match="twice") as refusal:
        planned("grid: {problem.gamma: [1, 1.0]}")
    assert "problem.gamma=1" in str(refusal.value)


def test_a_mistake_in_a_cell_is_refused_before_anything_runs(planned, results):
    with pytest.raises(DrobenchError, match="Did you mean 'gcivr'"):
        planned("grid: {solver: [scgd, gcvir]}")
    with pytest.raises(DrobenchError, match="gamma"):
        planned("grid: {problem.gamma: [1, -1]}")
    assert not results.exists()


def test_overrides_of_the_command_apply_to_every_cell(planned):
    cells = planned("grid: {seed: [0, 1]}", "budget.steps=9", "timeout=4").remaining
    assert [(cell.config.budget.steps, cell.config.timeout) for cell in cells] == [(9, 4.0), (9, 4.0)]


def test_the_timeout_of_the_file_is_the_default_of_its_cells(planned):
    cells = planned("timeout: 12\nparts: [{grid: {seed: [0]}}, {overrides: [timeout=3], grid: {seed: [1]}}]").remaining
    assert [cell.config.timeout for cell in cells] == [12, 3.0]


def test_finished_cells_are_skipped_and_failed_ones_tried_again(planned, catalogue):
    text = "grid: {seed: [0, 1, 2]}"
    first = planned(text)
    assert (len(first.finished), len(first.remaining)) == (0, 3)
    run_cell(first.remaining[0].config, catalogue)
    fail_cell(prepare(first.remaining[1].config, catalogue), "bad luck")
    second = planned(text)
    assert [cell.config.seed for cell in second.finished] == [0]
    assert [cell.config.seed for cell in second.remaining] == [1, 2]
    assert second.run_ids == first.run_ids
    assert len(second.run_ids) == 3


def test_a_damaged_result_counts_as_not_there(planned, catalogue, results):
    (cell,) = planned("grid: {seed: [0]}").remaining
    run_cell(cell.config, catalogue)
    (results / cell.run_id / "solution.safetensors").unlink()
    assert len(planned("grid: {seed: [0]}").remaining) == 1


def test_a_combination_that_makes_no_sense_is_planned_to_be_skipped(planned, catalogue):
    original = catalogue.problem("kl_classification").entry
    grouped = ProblemEntry(
        name="grouped", summary="Needs groups.", config=original.config, factory=original.factory,
        needs=frozenset({"groups"}),
    )  # fmt: skip
    using = catalogue_with(problems=(grouped,))
    cells = planned("grid: {problem: [grouped, kl_classification]}", using=using).remaining
    assert len(cells) == 2
    record = run_cell(cells[0].config, using, keep_refusals=True)
    assert (record.status, record.run_id) == (Status.SKIPPED, cells[0].run_id)


def test_the_time_is_estimated_from_comparable_runs(planned, catalogue, results):
    cells = planned("grid: {solver: [gcivr, scgd, unconstrained], seed: [0, 1]}").remaining
    records = [run_cell(cell.config, catalogue) for cell in cells if cell.config.solver.name == "gcivr"]
    known, unknown = estimate_seconds(cells, records)
    times = sorted(record.seconds.total for record in records)
    assert known == pytest.approx(2 * sum(times) / 2)
    assert unknown == 4
    assert estimate_seconds(cells, []) == (0.0, 6)


def test_a_budget_of_seconds_is_its_own_estimate(planned):
    cells = planned("grid: {seed: [0, 1]}", "budget.seconds=30").remaining
    assert estimate_seconds(cells, []) == (60.0, 0)


def test_the_quickstart_is_three_solvers_with_seven_seeds(catalogue, results):
    from drobench.app.config import register

    register(catalogue)
    sweep = load_sweep(find_sweep("quickstart"))
    cells = plan(sweep, [], catalogue, results, look=lambda *_: LastDataset()).remaining
    assert len(cells) == 21
    assert {cell.config.solver.name for cell in cells} == {"gcivr", "scgd", "unconstrained"}
    assert {cell.config.seed for cell in cells} == set(range(7))
    assert {cell.config.dataset.name for cell in cells} == {"breast_cancer"}


class TestStale:
    """Cells that are stored, but were made by other code."""

    @pytest.fixture
    def edited(self, planned, catalogue, results):
        (cell, _) = planned("grid: {seed: [0, 1]}").remaining
        record = run_cell(cell.config, catalogue)
        altered(results, record.run_id, lambda content: content["code"].update(drobench="0" * 64))
        altered(results, record.run_id, lambda content: content["code_parts"].update(framework="0" * 64))
        return record

    def test_they_are_to_be_done_again_with_a_reason(self, planned, edited):
        found = planned("grid: {seed: [0, 1]}")
        assert (len(found.finished), len(found.remaining)) == (0, 2)
        assert found.stale == {edited.run_id: "the code of drobench itself has changed since"}

    def test_trust_takes_them(self, planned, edited):
        found = planned("grid: {seed: [0, 1]}", "trust=patch")
        assert (len(found.finished), len(found.remaining), found.stale) == (1, 1, {})

    def test_the_sweep_counts_them(self, edited, command, sweep_file, results):
        shown = command("sweep", sweep_file("grid: {seed: [0, 1]}"), "--dry-run", "--results", results)
        assert "2 to do (1 of them stale)" in shown.out
        assert "stale: 1 cells: the code of drobench itself has changed since" in shown.out
