"""`drobench sweep`: plan, progress, comparison, messages."""

import json

import pytest
from app_samples import catalogue_with, configured, contradictory_table, guest, records_in, uphill_step
from rich.console import Console

from drobench.app.cell import fail_cell, run_cell
from drobench.app.commands.sweep import _counted, _matter, _noteworthy, _show_end
from drobench.app.prepare import prepare
from drobench.results.curves import StoredCurves
from drobench.results.record import Outcome, Status
from drobench.results.store import ResultStore


def test_a_summary_counts_each_status(planned, catalogue):
    cells = planned("grid: {seed: [0, 1]}").remaining
    records = [run_cell(cells[0].config, catalogue), fail_cell(prepare(cells[1].config, catalogue), "bad luck")]
    assert _counted(records) == {Status.BUDGET_SPENT: 1, Status.FAILED: 1}
    assert _counted([]) == {}


def test_what_is_the_matter_with_a_cell_is_on_its_line_and_in_the_last_count(configure, results, tmp_path, capsys):
    catalogue = catalogue_with(solvers=(guest("uphill", uphill_step),))
    sound, uphill = (run_cell(configure(f"solver={name}", using=catalogue), catalogue) for name in ("scgd", "uphill"))
    optimal = run_cell(
        configure("solver=scgd", "solver.step_size=0.1", *contradictory_table(tmp_path), base=()), catalogue
    )
    failed = fail_cell(prepare(configure("solver=scgd", "seed=7"), catalogue), "bad luck")
    curves = StoredCurves(ResultStore(results))
    start = curves(uphill.run_id)["objective"][0]
    assert [_matter(record, curves) for record in (sound, uphill, optimal, failed)] == [
        "",
        f"  worse than start: the objective went from {start:.6g} to {uphill.iterates.last.objective:.6g}",
        "  start is optimal: nothing to solve here, the certified optimum 0.693147 is the start",
        "  bad luck",
    ]
    records = [sound, uphill, optimal, failed]
    assert _noteworthy(records) == {Outcome.WORSE_THAN_START: 1, Outcome.START_IS_OPTIMAL: 1}
    _show_end(Console(width=200), records, results)
    assert (
        "Computed: 3 budget_spent, 1 failed (of these 1 worse than start, 1 start is optimal)."
        in capsys.readouterr().out
    )


@pytest.mark.process
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


@pytest.mark.process
def test_a_record_of_a_newer_version_is_not_overwritten_by_a_sweep(command, sweep_file, catalogue, results):
    record = run_cell(configured(catalogue, results, "seed=0"), catalogue)
    file = results / record.run_id / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 99}))
    ended = command("sweep", sweep_file("grid: {seed: [0]}"), "--results", results)
    assert ended.code == 2
    assert "schema 99" in ended.err
    assert json.loads(file.read_text())["schema"] == 99


@pytest.mark.process
def test_a_sweep_computes_its_cells_once(command, sweep_file, results):
    file = sweep_file("title: A [tiny] sweep\ngrid: {solver: [gcivr, scgd]}")
    first = command("sweep", file, "--results", results)
    assert first.code == 0, first
    assert "A [tiny] sweep" in first.out
    assert "2 cells, 0 finished before, 2 to do" in first.out
    assert "Computed: 2 budget_spent." in first.out
    assert "kl_classification on synthetic" in first.out
    assert first.out.count("solver=gcivr") == 1
    assert len(records_in(results)) == 2
    times = {file: file.stat().st_mtime_ns for file in results.glob("[!.]*/*")}
    assert len(times) == 8
    second = command("sweep", file, "--results", results)
    assert second.code == 0
    assert "2 cells, 2 finished before, 0 to do" in second.out
    assert "nothing, all cells were finished" in second.out
    assert "kl_classification on synthetic" in second.out
    assert {file: file.stat().st_mtime_ns for file in results.glob("[!.]*/*")} == times
    third = command("sweep", file, "--results", results, "logger=csv")
    assert "2 cells were there already; curve and outcome replayed to logger=csv" in third.out
    assert len(list(results.glob(".logs/*/metrics.csv"))) == 2


@pytest.mark.process
def test_a_sweep_finds_what_a_single_run_computed(command, sweep_file, catalogue, results):
    from drobench.app.cell import run_cell

    run_cell(configured(catalogue, results, "solver=scgd"), catalogue)
    ended = command("sweep", sweep_file("grid: {solver: [gcivr, scgd]}"), "--results", results)
    assert ended.code == 0
    assert "2 cells, 1 finished before, 1 to do" in ended.out
    assert "Computed: 1 budget_spent." in ended.out


@pytest.mark.process
def test_two_jobs_at_a_time_compute_the_same(command, sweep_file, tmp_path):
    file = sweep_file("grid: {solver: [scgd, unconstrained]}")
    objectives = []
    for jobs in (1, 2):
        results = tmp_path / f"jobs{jobs}"
        ended = command("sweep", file, "--results", results, "--jobs", jobs)
        assert ended.code == 0, ended
        records = ResultStore(results).records().records
        assert len(records) == 2
        objectives.append({record.run_id: record.iterates.last.objective for record in records})
    assert objectives[0] == objectives[1]
