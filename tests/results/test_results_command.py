"""The command `leaderboard`, on made-up runs."""

import csv
import json

import pytest
from result_samples import make_curve, make_record

from drobench.app.cli import main
from drobench.results.record import Iterate
from drobench.results.store import ResultStore


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two problems, three solvers, eight seeds; one of the solvers with two configurations."""
    store = ResultStore(tmp_path_factory.mktemp("runs"))
    for problem in ("kl", "cvar"):
        for solver, passes, config in (
            ("quick", 2, {}),
            ("slow", 6, {}),
            ("tuned", 4, {"size": 1}),
            ("tuned", 9, {"size": 2}),
        ):
            for seed in range(8):
                curve = make_curve([3.0] * (passes + seed % 2) + [1.0 + seed / 1e6], 1.0)
                point = Iterate(
                    objective=1.0 + seed / 1e6, gap=seed / 1e6, train_error=0.2, test_error=0.3,
                    validation_error=0.4 - passes / 100, feasible=True,
                )  # fmt: skip
                record = make_record(solver, seed, problem=problem, config=config, iterate=point, optimum=1.0)
                store.write(record, curve, {}, "")
    return store.root


@pytest.fixture
def command(capsys, folder, monkeypatch):
    """The command as a function: code, output, messages."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(["leaderboard", "--results", str(folder), *words])
        return ended.value.code or 0, *capsys.readouterr()

    return run


def parsed(command, *words):
    code, out, err = command("--format", "json", *words)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_table_answers_who_is_better_by_how_much_and_whether_that_is_real(command):
    code, out, err = command("--problem", "kl", "--solver", "quick,slow")
    assert (code, err) == (0, "")
    (quick,) = [line.split() for line in out.splitlines() if " quick " in line and "8" in line.split()]
    (slow,) = [line.split() for line in out.splitlines() if " slow " in line]
    assert (quick[0], slow[0]) == ("1", "2")
    assert slow[-2:] == ["2.67x", "0.0078"]
    assert "relative gap 0.0001" in out


def test_a_narrow_terminal_loses_columns_that_can_be_spared(command, monkeypatch):
    def heading():
        return next(line for line in command("--problem", "kl")[1].splitlines() if "solver" in line and "rank" in line)

    assert "passes to 1e-2" in heading()
    monkeypatch.setenv("COLUMNS", "100")
    assert "passes to 1e-2" not in heading()
    assert "passes to 1e-4" in heading()
    assert "[" in command("--problem", "kl")[1].split("Medians")[0]
    monkeypatch.setenv("COLUMNS", "85")
    assert "[" not in command("--problem", "kl")[1].split("Medians")[0]


def test_the_profiles_across_problems_follow(command):
    code, out, _ = command("--solver", "quick,slow")
    assert code == 0
    assert "Across boards" in out
    assert "speed vs quick" in out


def test_runs_can_be_filtered(command):
    content = parsed(command, "--problem", "k*", "--solver", "qu*,slow", "--where", "problem.gamma=0.5")
    assert [board["problem"]["name"] for board in content["boards"]] == ["kl"]
    assert [row["name"] for row in content["boards"][0]["rows"]] == ["quick", "slow"]


def test_a_filter_that_fits_nothing_names_what_there_is_and_has_a_code_of_its_own(command):
    code, out, err = command("--solver", "fast")
    assert (code, out) == (3, "")
    assert "quick, slow, tuned" in err


def test_targets_costs_and_baselines_are_passed_on(command):
    content = parsed(
        command, "--target", "objective=1.000002,violation=0.1", "--target", "gap=1e-3", "--cost", "oracle_calls",
        "--baseline", "slow", "--by", "test_error", "--problem", "kl",
    )  # fmt: skip
    assert content["targets"] == [{"objective": 1.000002, "train_max_violation": 0.1}, {"gap": 1e-3}]
    assert (content["cost"], content["baseline"]) == ("oracle_calls", "slow")
    (board,) = content["boards"]
    assert (board["reference"], board["ranked_by"]) == ("slow", "test_error")
    assert board["rows"][0]["reached"][1]["costs"]["oracle_calls"]["median"] == 250.0


def test_one_configuration_is_selected(command):
    content = parsed(command, "--select", "validation", "--problem", "kl")
    rows = {row["solver"]: row["tuning"] for row in content["boards"][0]["rows"]}
    assert set(rows) == {"quick", "slow", "tuned (size=2)"}
    assert rows["tuned (size=2)"]["configurations"] == 2
    _, out, _ = command("--select", "validation", "--problem", "kl", "--format", "csv")
    (line,) = [row for row in csv.DictReader(out.splitlines()) if row["solver"] == "tuned (size=2)"]
    assert line["configurations_tried"] == "2"


def test_the_page_is_html(command):
    code, out, err = command("--format", "html")
    assert (code, err) == (0, "")
    assert out.startswith("<!doctype html>")
    assert "<td" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--target", "gap"], "gap=1e-4,violation=0.01"),
        (["--where", "gamma"], "KEY=VALUE"),
        (["--across", "budget.passes"], "budget.passes"),
        (["--baseline", "best"], "quick, slow"),
        (["--by", "speed"], "test_error"),
    ],
)
def test_wrong_words_are_refused_with_what_would_be_right(command, words, expected):
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert expected in err
    assert "Traceback" not in err
