"""`drobench leaderboard`, `report` and `plot`: formats, choices, refusals."""

import json

import polars
import pytest
from app_samples import stored_runs, unsealed

from drobench.app.cli import main


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "json"])
def test_the_leaderboard_has_four_formats(command, finished, form):
    folder, runs = finished
    shown = command("leaderboard", "--results", folder, "--format", form)
    assert (shown.code, shown.err) == (0, "")
    for solver in runs:
        assert solver in shown.out


def test_the_leaderboard_as_json_and_csv_can_be_parsed(command, finished):
    import csv

    folder, runs = finished

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    parsed = json.loads(command("leaderboard", "--results", folder, "--format", "json").out, parse_constant=refuse)
    assert {row["name"] for board in parsed["boards"] for row in board["rows"]} == set(runs)
    rows = list(csv.DictReader(command("leaderboard", "--results", folder, "--format", "csv").out.splitlines()))
    assert len(rows) == len(runs)
    assert all(None not in row and None not in row.values() for row in rows)
    markdown = command("leaderboard", "--results", folder, "--format", "markdown").out
    assert sum(line.startswith("|") for line in markdown.splitlines()) == len(runs) + 2


@pytest.mark.parametrize("iterate", ["last", "best_feasible"])
def test_the_leaderboard_agrees_with_the_records(command, finished, iterate):
    folder, runs = finished
    shown = command("leaderboard", "--results", folder, "--format", "json", "--iterate", iterate)
    rows = [row for board in json.loads(shown.out)["boards"] for row in board["rows"]]
    gaps = {row["name"]: row["gap"]["median"] for row in rows}
    assert gaps == pytest.approx({name: getattr(record.iterates, iterate).gap for name, record in runs.items()})
    ranks = [row["rank"] for row in rows]
    assert ranks == sorted(ranks)


def test_the_leaderboard_looks_where_the_environment_says(command, finished, monkeypatch):
    folder, _ = finished
    monkeypatch.chdir("/")
    monkeypatch.setenv("DROBENCH_RESULTS", str(folder))
    assert "gcivr" in command("leaderboard").out


def test_a_leaderboard_of_nothing_is_refused_with_advice(command, results):
    ended = command("leaderboard", "--results", results)
    assert ended.code == 3
    assert "no results to compare" in ended.err
    assert "drobench sweep quickstart" in ended.err
    assert not results.exists()


def test_an_impossible_target_is_refused(command, finished):
    ended = command("leaderboard", "--results", finished[0], "--target-gap", "-1")
    assert ended.code == 2
    assert "target_gap" in ended.err


def test_a_damaged_record_is_reported_and_the_others_are_shown(command, finished):
    folder, runs = finished
    file = folder / runs["scgd"].run_id / "record.json"
    file.write_text(file.read_text()[:200])
    ended = command("leaderboard", "--results", folder, "--format", "json")
    assert ended.code == 0
    assert runs["scgd"].run_id[:12] in ended.err
    assert ".damaged" in ended.err
    assert {row["name"] for board in json.loads(ended.out)["boards"] for row in board["rows"]} == set(runs) - {"scgd"}
    (kept,) = (folder / ".damaged").iterdir()
    assert (kept / "record.json").stat().st_size == 200


def test_a_record_of_a_newer_version_is_reported_and_left_alone(command, finished):
    folder, runs = finished
    file = folder / runs["gcivr"].run_id / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 2}))
    ended = command("leaderboard", "--results", folder)
    assert ended.code == 0
    assert "schema 2" in ended.err
    assert "scgd" in ended.out
    assert "gcivr" not in ended.out
    assert file.is_file()
    shown = command("show", runs["gcivr"].run_id, "--results", folder)
    assert shown.code == 2
    assert "Upgrade drobench" in shown.err


def test_report_writes_one_page_and_says_where(tmp_path, capsys):
    stored_runs(tmp_path / "results")
    file = tmp_path / "new" / "page.html"
    assert run("report", "--results", str(tmp_path / "results"), "--output", str(file)) == 0
    assert "page.html: 4 runs" in capsys.readouterr().out
    assert "alpha" in file.read_text(encoding="utf-8")
    assert [found.name for found in file.parent.iterdir()] == ["page.html"]


def test_report_shows_only_the_chosen_runs(tmp_path, capsys):
    stored_runs(tmp_path / "results")
    file = tmp_path / "page.html"
    words = ("report", "--results", str(tmp_path / "results"), "--output", str(file))
    assert run(*words, "--solver", "al*") == 0
    page = file.read_text(encoding="utf-8")
    assert "alpha" in page
    assert "beta" not in page
    assert run(*words, "--solver", "gamma") != 0
    assert "alpha, beta" in capsys.readouterr().err


def test_nothing_to_report_is_said_with_the_code_of_the_leaderboard(tmp_path, capsys):
    results = ("--results", str(tmp_path / "none"))
    expected = run("leaderboard", *results)
    assert expected != 0
    for words in (("report", "--output", str(tmp_path / "x.html")), ("plot", "--output", str(tmp_path / "x"))):
        capsys.readouterr()
        assert run(*words, *results) == expected
        assert "There are no results to compare" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_plot_lists_what_it_wrote(tmp_path, capsys):
    stored_runs(tmp_path / "results")
    words = ("plot", "--results", str(tmp_path / "results"), "--output", str(tmp_path / "figures"), "--format", "svg")
    assert run(*words) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if line]
    assert sorted(listed) == sorted(str(file) for file in (tmp_path / "figures").iterdir())
    assert str(tmp_path / "figures" / "robust-on-tiny_objective_by_oracle_calls.svg") in listed


@pytest.mark.parametrize("name", ["leaderboard", "report", "plot"])
def test_one_poisoned_run_is_left_out_with_a_line(command, tmp_path, name):
    store = stored_runs(tmp_path / "results")
    bad = store.records().records[0].run_id
    polars.DataFrame({"objective": ["text"], "step": [{"a": 1}]}).write_parquet(store.root / bad / "curve.parquet")
    unsealed(store.root / bad)
    words = {"report": ["--output", tmp_path / "page.html"], "plot": ["--output", tmp_path, "--format", "svg"]}
    ended = command(name, "--results", store.root, *words.get(name, []))
    assert ended.code == 0, ended.err
    (line,) = ended.err.splitlines()
    assert bad in line
    assert "columns of numbers" in line
    assert ".damaged" in line
    assert not (store.root / bad).exists()


def test_a_report_that_is_a_folder_is_a_message(command, tmp_path):
    store = stored_runs(tmp_path / "results")
    ended = command("report", "--results", store.root, "--output", ".")
    assert ended.code == 2
    assert "is a folder" in ended.err
