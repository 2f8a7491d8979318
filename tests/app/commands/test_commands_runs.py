"""`drobench show`, `runs`, `diff`, `remove`: what is stored of single runs."""

import csv
import json
import re
from types import SimpleNamespace

import pytest
from app_samples import SMALL, altered

from drobench.results.store import ResultStore


def test_show_prints_one_run_by_the_beginning_of_its_id(command, finished):
    folder, runs = finished
    record = runs["scgd"]
    shown = command("show", record.run_id[:6], "--results", folder)
    assert shown.code == 0
    assert record.run_id[:12] in shown.out
    assert "solver   scgd" in shown.out
    assert "batch=32" in shown.out
    assert "seed 4" in shown.out
    assert f"{record.iterates.last.objective:.6g}" in shown.out
    assert f"{record.optimum.value:.10g}" in shown.out
    assert "certified, exact_convex" in shown.out
    # With the metrics that only this problem has.
    for name, value in record.iterates.last.extra.items():
        assert re.search(rf"{name.replace('_', ' ')}( \([a-z]+\))? +{re.escape(f'{value:.6g}')} ", shown.out), name


def test_show_prints_the_record_as_it_is_stored(command, finished):
    folder, runs = finished
    record = runs["gcivr"]
    shown = command("show", record.run_id[:10], "--json", "--results", folder)
    assert shown.out == (folder / record.run_id / "record.json").read_text()


def test_show_tells_why_there_is_no_optimum_and_why_a_run_failed(command, misbehaving, results):
    command("run", *SMALL, "problem.loss=sigmoid", f"results={results}")
    command("run", *SMALL, "solver=raising", f"results={results}")
    for record in ResultStore(results).records().records:
        shown = command("show", record.run_id, "--results", results)
        assert shown.code == 0
        expected = (
            "the guest has had enough" if record.solver.name == "raising" else "unknown (the problem is not convex)"
        )
        assert expected in shown.out


@pytest.mark.parametrize(
    ("prefix", "mentioned"), [("ffffffff", "no run 'ffffffff'"), ("ab", "at least 4 digits"), ("zz/../x", "no run")]
)
def test_an_unknown_run_is_refused(command, finished, prefix, mentioned):
    for name in ("show", "rerun"):
        ended = command(name, prefix, "--results", finished[0])
        assert ended.code == 2
        assert mentioned in ended.err


def test_show_tells_what_an_older_record_came_to_from_its_curve(command, finished):
    folder, runs = finished
    record = runs["scgd"]

    def make_older(content):
        assert content.pop("outcome") == "ok"
        content["iterates"]["last"]["objective"] = 12.5

    altered(folder, record.run_id, make_older)
    first = ResultStore(folder).curve(record.run_id)["objective"][0]
    shown = command("show", record.run_id[:8], "--results", folder)
    assert f"worse than start: the objective went from {first:.6g} to 12.5\n" in shown.out


def test_runs_lists_what_is_stored(command, finished):
    folder, runs = finished
    shown = command("runs", "--results", folder)
    assert (shown.code, shown.err) == (0, "")
    for solver, record in runs.items():
        (line,) = [line for line in shown.out.splitlines() if record.short_id in line]
        assert line.split()[1:6] == [solver, "kl_classification", "synthetic", "4", "budget_spent"]
    assert "3 of 3 runs" in shown.out


def test_runs_can_be_chosen_sorted_and_cut(command, finished):
    folder, runs = finished
    by_gap = sorted(runs.values(), key=lambda record: record.iterates.last.gap)
    shown = command("runs", "--results", folder, "--sort", "gap", "--format", "json")
    assert [row["run_id"] for row in json.loads(shown.out)] == [record.run_id for record in by_gap]
    shown = command("runs", "--results", folder, "--sort", "gap", "--descending", "--limit", "1", "--format", "json")
    assert [row["run_id"] for row in json.loads(shown.out)] == [by_gap[-1].run_id]
    shown = command("runs", "--results", folder, "--solver", "sc*", "--where", "seed=4", "--format", "csv")
    (row,) = csv.DictReader(shown.out.splitlines())
    assert row["run_id"] == runs["scgd"].run_id
    assert float(row["gap"]) == runs["scgd"].iterates.last.gap


@pytest.mark.parametrize(
    ("words", "mentioned"),
    [(["--sort", "speed"], "speed"), (["--limit", "0"], "--limit"), (["--where", "seed"], "KEY=VALUE")],
)
def test_an_impossible_list_of_runs_is_refused(command, finished, words, mentioned):
    ended = command("runs", "--results", finished[0], *words)
    assert ended.code == 2
    assert mentioned in ended.err


def test_a_folder_without_runs_has_an_empty_list(command, results):
    assert "0 of 0 runs" in command("runs", "--results", results).out
    assert not results.exists()


def test_diff_shows_what_differs_and_says_what_does_not(command, finished):
    folder, runs = finished
    words = ("diff", runs["scgd"].run_id[:8], runs["gcivr"].run_id[:8], "--results", folder)
    shown = command(*words)
    assert shown.code == 0
    assert re.search(r"solver.name +scgd +gcivr", shown.out)
    assert "solver.delay" not in shown.out
    assert "further things differ" in shown.out
    everything = command(*words, "--all")
    assert "solver.delay" in everything.out
    assert "code_parts.solver" in everything.out
    same = command("diff", runs["scgd"].run_id, runs["scgd"].run_id, "--results", folder)
    assert "The same in both: settings, results, costs, code and machine." in same.out


def test_remove_takes_these_runs_and_nothing_else(command, finished):
    folder, runs = finished
    others = {file for file in folder.rglob("*") if file.is_file() and runs["scgd"].run_id not in str(file)}
    ended = command("remove", runs["scgd"].run_id[:8], "--yes", "--results", folder)
    assert ended.code == 0, ended
    assert f"{runs['scgd'].short_id}  scgd on kl_classification, synthetic, seed 4: budget_spent" in ended.out
    assert not (folder / runs["scgd"].run_id).exists()
    assert others <= {file for file in folder.rglob("*") if file.is_file()}
    assert not list((folder / ".writing").iterdir())
    assert command("show", runs["scgd"].run_id, "--results", folder).code == 2


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("Yes", 0), ("n", 1), ("", 1)])
def test_remove_asks_before(command, finished, monkeypatch, answer, code):
    folder, runs = finished
    asked = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    ended = command("remove", runs["scgd"].run_id, runs["gcivr"].run_id, "--results", folder)
    assert ended.code == code
    assert asked == ["Remove these 2 runs? [y/N] "]
    assert (folder / runs["scgd"].run_id).exists() is (code == 1)


def test_remove_removes_nothing_where_nobody_can_be_asked(command, finished, monkeypatch):
    folder, runs = finished
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    ended = command("remove", runs["scgd"].run_id, "--results", folder)
    assert ended.code == 2
    assert "--yes" in ended.err
    assert (folder / runs["scgd"].run_id).exists()


def test_remove_refuses_a_run_that_is_being_computed_and_a_name_that_is_none(command, finished):
    folder, runs = finished
    with ResultStore(folder).lock(runs["scgd"].run_id):
        ended = command("remove", runs["scgd"].run_id, "--yes", "--results", folder)
    assert ended.code == 2
    assert "being computed" in ended.err
    assert (folder / runs["scgd"].run_id).exists()
    ended = command("remove", runs["scgd"].run_id, "ffffffff", "--yes", "--results", folder)
    assert ended.code == 2
    assert (folder / runs["scgd"].run_id).exists()


def test_remove_takes_a_damaged_run_too_and_says_so(command, finished):
    folder, runs = finished
    file = folder / runs["scgd"].run_id / "record.json"
    file.write_text(file.read_text()[:100])
    ended = command("remove", runs["scgd"].run_id, "--yes", "--results", folder)
    assert ended.code == 0
    assert "cannot be read" in ended.out
    assert not file.parent.exists()
