"""`drobench show`: one run as it is stored."""

import re

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
