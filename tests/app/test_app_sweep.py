"""Sweep files: read, expanded, planned and estimated, without computing anything."""

import json
from dataclasses import dataclass

import pytest
from app_samples import SMALL, catalogue_with, configured, guest
from drobench.app.sweep import estimate_seconds, find_sweep, load_sweep, plan, summary

from drobench.app.cell import fail_cell, run_cell
from drobench.errors import DrobenchError
from drobench.registry import ProblemEntry
from drobench.results.record import Status

HEAD = "overrides: [" + ", ".join(f'"{word}"' for word in SMALL) + "]\n"


@pytest.fixture
def sweep_file(tmp_path):
    """Write a sweep of small cells; gives the path."""

    def write(text, head=HEAD):
        file = tmp_path / "tiny.yaml"
        file.write_text(head + text)
        return file

    return write


@pytest.fixture
def planned(sweep_file, catalogue, results):
    """Plan a sweep of small cells."""
    from drobench.app.config import register

    register(catalogue)

    def make(text, *extra, using=catalogue, head=HEAD):
        register(using)
        return plan(load_sweep(sweep_file(text, head)), list(extra), using, results)

    return make


@pytest.mark.parametrize(
    ("text", "mentioned"),
    [
        ("grd: {seed: [1]}", "unknown key 'grd'. Did you mean 'grid'?"),
        ("parts: [{gird: {seed: [1]}}]", "unknown key 'gird'. Did you mean 'grid'?"),
        ("grid: {seed: 3}", "'seed' must list its values; found 3"),
        ("grid: {seed: []}", "'seed' must list its values; found []"),
        ("grid: {seed: {a: 1}}", "'seed' must list its values"),
        ("[1, 2]", "must be a mapping"),
        ("grid: {seed: ['${nothing}']}", "nothing"),
    ],
)
def test_a_mistake_in_a_sweep_file_is_named_with_the_file(sweep_file, text, mentioned):
    file = sweep_file(text, head="")
    with pytest.raises(DrobenchError) as refusal:
        load_sweep(file)
    assert mentioned in str(refusal.value)
    assert str(file) in str(refusal.value)


def test_a_mapping_in_a_grid_sets_several_keys_together(sweep_file):
    text = "grid: {seed: [0, 1], method: [{solver: gcivr, solver.step_scale: 2.0}, {solver: scgd}, {}]}"
    cells = load_sweep(sweep_file(text, head="overrides: [solver.batch=8]\n")).cells
    assert len(cells) == 6
    assert [sorted(cell) for cell in (cells[0], cells[4], cells[5])] == [
        ["seed=0", "solver.batch=8", "solver.step_scale=2.0", "solver=gcivr"],
        ["seed=1", "solver.batch=8", "solver=scgd"],
        ["seed=1", "solver.batch=8"],
    ]


@pytest.mark.parametrize("text", ["grid: [", "a: b: c", "\tgrid: 1"])
def test_a_file_that_is_no_yaml_is_refused_with_the_place(sweep_file, text):
    file = sweep_file(text, head="")
    with pytest.raises(DrobenchError, match="line 1") as refusal:
        load_sweep(file)
    assert str(file) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("overrides: dataset=synthetic", "overrides"),
        ("overrides: [3]", "overrides"),
        ("overrides: {dataset: synthetic}", "overrides"),
        ("grid: [1]", "grid"),
        ("grid: seed", "grid"),
        ("parts: [1]", "parts"),
        ("parts: {grid: {seed: [1]}}", "parts"),
        ("parts: [{overrides: seed=1}]", "overrides"),
        ("parts: [{grid: [1]}]", "grid"),
        ("timeout: soon", "timeout"),
        ("timeout: -1", "timeout"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_naming_its_key(sweep_file, text, key):
    file = sweep_file(text, head="")
    with pytest.raises(DrobenchError, match=key) as refusal:
        load_sweep(file)
    assert str(file) in str(refusal.value)


def test_an_unreadable_file_is_refused(tmp_path):
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00grid")
    with pytest.raises(DrobenchError, match=r"binary\.yaml"):
        load_sweep(file)


def test_a_sweep_is_found_by_name_or_path(tmp_path):
    assert find_sweep("quickstart").name == "quickstart.yaml"
    file = tmp_path / "mine.yml"
    file.write_text("grid: {seed: [1]}\n")
    assert find_sweep(str(file)) == file


def test_an_unknown_sweep_is_refused_with_the_nearest():
    with pytest.raises(DrobenchError, match=r"no sweep called 'quikstart'\. Did you mean 'quickstart'") as refusal:
        find_sweep("quikstart")
    assert "path of a YAML file" in str(refusal.value)
    with pytest.raises(DrobenchError, match=r"no sweep file 'nowhere/mine\.yaml'"):
        find_sweep("nowhere/mine.yaml")


def test_the_grid_is_the_product_of_its_values(sweep_file):
    sweep = load_sweep(
        sweep_file("title: T\ndescription: D\ntimeout: 7\ngrid: {solver: [gcivr, scgd], seed: [0, 1, 2]}")
    )
    assert (sweep.title, sweep.description, sweep.timeout) == ("T", "D", 7)
    chosen = [tuple(word for word in words if word.startswith(("solver=", "seed="))) for words in sweep.cells]
    assert len(set(chosen)) == 6
    assert ("solver=scgd", "seed=2") in chosen
    assert all(set(words) >= set(SMALL) for words in sweep.cells)


def test_without_title_a_sweep_is_called_after_its_file(sweep_file):
    sweep = load_sweep(sweep_file("grid: {seed: [0]}"))
    assert (sweep.title, sweep.description, sweep.timeout) == ("tiny", "", None)


def test_parts_are_joined_and_may_change_the_grid(sweep_file):
    text = """
    grid: {seed: [0, 1]}
    parts:
      - {overrides: [solver=gcivr], grid: {solver.batch: [2, 4]}}
      - {overrides: [solver=scgd]}
      - {overrides: [solver=unconstrained], grid: {seed: [7]}}
    """
    cells = load_sweep(sweep_file(text.replace("\n    ", "\n"))).cells
    assert len(cells) == 2 * 2 + 2 + 1
    assert sum("solver=gcivr" in words for words in cells) == 4
    assert [words[-1] for words in cells if "solver=gcivr" in words] == ["solver.batch=2", "solver.batch=4"] * 2
    assert [words for words in cells if "seed=7" in words] == [
        words for words in cells if "solver=unconstrained" in words
    ]


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
    assert planned("", head="").remaining[0].label == "the only cell"


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
    fail_cell(first.remaining[1].config, catalogue, "bad luck")
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


def test_the_quickstart_is_three_solvers_with_three_seeds(catalogue, results):
    from drobench.app.config import register

    register(catalogue)
    cells = plan(load_sweep(find_sweep("quickstart")), [], catalogue, results).remaining
    assert len(cells) == 9
    assert {cell.config.solver.name for cell in cells} == {"gcivr", "scgd", "unconstrained"}
    assert {cell.config.seed for cell in cells} == {0, 1, 2}
    assert {cell.config.dataset.name for cell in cells} == {"breast_cancer"}


def test_a_summary_counts_each_status(planned, catalogue):
    cells = planned("grid: {seed: [0, 1]}").remaining
    records = [run_cell(cells[0].config, catalogue), fail_cell(cells[1].config, catalogue, "bad luck")]
    assert summary(records) == {Status.BUDGET_SPENT: 1, Status.FAILED: 1}
    assert summary([]) == {}


def test_a_dry_run_counts_estimates_and_computes_nothing(command, sweep_file, catalogue, results):
    file = sweep_file("grid: {solver: [gcivr, scgd], seed: [0, 1]}")
    before = command("sweep", file, "--results", results, "--dry-run")
    assert before.code == 0
    assert "4 cells, 0 finished before, 4 to do" in before.out
    assert "4 without a comparable run" in before.out
    assert "solver=scgd seed=1" in before.out
    assert not list(results.glob("*/record.json"))
    run_cell(configured(catalogue, results, "solver=gcivr", "seed=0"), catalogue)
    after = command("sweep", file, "--results", results, "--dry-run")
    assert "4 cells, 1 finished before, 3 to do" in after.out
    assert "s for the known ones" in after.out
    assert "2 without a comparable run" in after.out
    assert "solver=gcivr seed=0" not in after.out


def test_the_sweeps_that_come_along_are_listed(command):
    shown = command("sweep")
    assert shown.code == 0
    assert "quickstart" in shown.out
    assert "9" in shown.out


@pytest.mark.parametrize(
    ("words", "mentioned"),
    [
        (["quikstart"], "Did you mean 'quickstart'"),
        (["quickstart", "--jobs", "0"], "--jobs must be at least 1"),
        (["quickstart", "solver.bacth=3", "--dry-run"], "solver.bacth"),
    ],
)
def test_a_mistake_on_the_command_line_ends_with_a_message(command, results, words, mentioned):
    ended = command("sweep", *words, "--results", results)
    assert ended.code == 2
    assert mentioned in ended.err
    assert "Traceback" not in ended.err


def test_results_of_a_sweep_may_be_chosen_as_for_a_run(command, sweep_file, catalogue, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    run_cell(configured(catalogue, elsewhere, "seed=0"), catalogue)
    ended = command("sweep", sweep_file("grid: {seed: [0]}"), f"results={elsewhere}", "--dry-run")
    # An override that is accepted and then ignored sends a night's results to a place where nobody looks.
    assert ended.code == 2 or "1 finished before" in ended.out


def test_a_record_of_a_newer_version_is_not_overwritten_by_a_sweep(command, sweep_file, catalogue, results):
    record = run_cell(configured(catalogue, results, "seed=0"), catalogue)
    file = results / record.run_id / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 99}))
    ended = command("sweep", sweep_file("grid: {seed: [0]}"), "--results", results)
    assert ended.code == 2
    assert "schema 99" in ended.err
    assert json.loads(file.read_text())["schema"] == 99
