"""Runs at Weights & Biases, read back from the files they leave when there is no network."""

import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import wandb
import yaml
from wandb_file import only_run_in, runs_in

from drobench import run
from drobench.app.cell import run_cell
from drobench.app.cli import main
from drobench.app.config import compose, data_dir, hydra_ready, register, resolve
from drobench.app.sweep_file import load_sweep
from drobench.app.sweep_plan import plan
from drobench.registry import load_catalogue
from drobench.results.comparison.board import Board, Leaderboard
from drobench.results.comparison.metrics import METRICS
from drobench.results.comparison.rows import Comparison, Reached, Row, Summary
from drobench.results.comparison.targets import Target
from drobench.results.record import Status
from drobench.results.store import ResultStore
from drobench.training import budget, wandb_session
from drobench.training.loggers import make_logger
from drobench.training.run_log import RunLog
from drobench.training.settings import LoggerConfig
from drobench.training.wandb_leaderboard import tables_of
from drobench.training.wandb_log import AXES, summary_of
from drobench.training.wandb_session import WandbFailed, mode_of

SMALL = ("dataset=synthetic", "dataset.rows=200", "dataset.features=3", "problem.l2=0.1", "budget.passes=4")
AWAY = ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR")


@pytest.fixture(scope="session")
def _away(tmp_path_factory):
    """A place for what wandb would keep in the home directory."""
    yield tmp_path_factory.mktemp("wandb")
    wandb.teardown()


@pytest.fixture(autouse=True)
def _nobody_is_logged_in(monkeypatch, _away, tmp_path):
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name in AWAY:
        monkeypatch.setenv(name, str(_away / name))
    monkeypatch.setenv("NETRC", str(_away / "netrc"))
    monkeypatch.setenv("HOME", str(_away))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    yield
    assert wandb.run is None
    assert list((tmp_path / "cwd").iterdir()) == []


def as_logged(curve):
    """Return a curve as a history has it: nothing for what is unknown, numbers for truths."""
    return [{key: value for key, value in row.items() if value is not None} for row in curve]


def folder_of(results, record):
    return results / ".logs" / record.run_id


def test_the_history_is_the_curve_against_the_solvers_steps(bench, tmp_path):
    module = bench.train(bench.task(bench.solver("scgd"), passes=6), tmp_path / "a", logger="wandb")
    logged = only_run_in(tmp_path / "a" / "log")
    assert len(module.curve) == 7
    assert logged.rows == as_logged(module.curve)
    assert [row["_step"] for row in logged.history] == [row["step"] for row in module.curve]
    assert logged.exit_codes == [0]


def test_every_axis_is_in_every_row_and_calls_are_the_default(bench, tmp_path):
    bench.train(bench.task(bench.solver("scgd"), passes=3), tmp_path / "a", logger="wandb")
    logged = only_run_in(tmp_path / "a" / "log")
    assert all(set(AXES) <= set(row) for row in logged.rows)
    assert logged.step_metrics["*"] == "oracle_calls"
    assert all(logged.step_metrics[axis] == "" for axis in AXES)


def test_a_run_says_who_it_is(bench, tmp_path):
    bench.train(bench.task(bench.solver("scgd"), passes=1), tmp_path / "a", logger="wandb")
    logged, card = only_run_in(tmp_path / "a" / "log"), bench.card()
    assert (logged.identity, logged.name, logged.job_type) == (card.run_id[:32], card.name, "scgd")
    assert (logged.project, logged.group) == ("drobench", "bench")
    assert {name: logged.config[name] for name in (*card.config, "run_id")} == {**card.config, "run_id": card.run_id}


def test_a_run_that_raises_is_finished_once_and_as_failed(bench, told, tmp_path):
    def act(point, step):
        if step == 25:
            raise ArithmeticError
        return point

    seen = []
    with pytest.raises(ArithmeticError):
        bench.train(bench.task(told(act), steps=40), tmp_path / "a", logger="wandb", on_evaluation=seen.append)
    logged = only_run_in(tmp_path / "a" / "log")
    assert logged.rows == as_logged(seen)
    assert logged.exit_codes == [1]


def test_a_continued_run_has_every_row_once(bench, tmp_path):
    def killed(row):
        if row["passes"] >= 4:
            raise ConnectionError

    solver, folder = bench.solver("scgd"), tmp_path / "a"
    with pytest.raises(ConnectionError):
        bench.train(bench.task(solver, passes=8), folder, logger="wandb", on_evaluation=killed, checkpoint_steps=1)
    assert (folder / "last.ckpt").exists()
    assert len(only_run_in(folder / "log").rows) == 4
    module = bench.train(bench.task(solver, passes=8), folder, logger="wandb", checkpoint_steps=1)
    logged = only_run_in(folder / "log")
    assert logged.rows == as_logged(module.curve)
    assert len(logged.rows) == 9
    assert logged.exit_codes == [0]


class Stage:
    """Stands in for a run at a server: it knows its step, and refuses what comes after its end."""

    def __init__(self, step=0):
        self.step = step
        self.rows = []
        self.ends = []

    def define_metric(self, *words, **settings):
        pass

    def log(self, row, step, commit):
        assert commit
        assert step >= self.step
        assert not self.ends
        self.rows.append(row)
        self.step = step + 1

    def finish(self, exit_code):
        self.ends.append(exit_code)


@pytest.fixture
def started(monkeypatch):
    """Catch what `wandb.init` is asked for; gives the calls, and runs that stand where `step` says."""
    calls = []

    def install(step=0):
        def init(**words):
            calls.append(words)
            return Stage(step)

        monkeypatch.setattr(wandb, "init", init)
        return calls

    return install


def log_of(bench, folder, **settings):
    return make_logger(LoggerConfig("wandb", mode="offline", **settings), bench.card(), folder)


def test_a_continued_run_skips_what_the_server_has(bench, tmp_path, started):
    calls = started(step=21)
    log = log_of(bench, tmp_path / "log")
    log.open(continued=True)
    stage = log.run
    for step in (0, 10, 20, 30, 40):
        log.log_metrics({"objective": 1.0, "feasible": True}, step)
    assert [row["objective"] for row in stage.rows] == [1.0, 1.0]
    assert stage.step == 41
    assert calls[0]["resume"] == "allow"


def test_a_run_from_the_start_replaces_what_the_server_has(bench, tmp_path, started):
    calls = started()
    log_of(bench, tmp_path / "log").open(continued=False)
    assert calls[0]["resume"] is None
    assert calls[0]["id"] == bench.card().run_id[:32]


def test_a_log_is_closed_once_whoever_asks(bench, tmp_path, started):
    started()
    with log_of(bench, tmp_path / "log") as log:
        log.open(continued=False)
        stage = log.run
        log.finalize("success")
        log.close(failed=False)
    assert stage.ends == [0]


def test_under_an_agent_its_run_and_project_are_used(bench, tmp_path, started, monkeypatch):
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep")
    monkeypatch.setenv("WANDB_RUN_ID", "agents_choice")
    calls = started()
    log_of(bench, tmp_path / "log").open(continued=False)
    assert not {"id", "resume", "project", "entity"} & set(calls[0])
    assert (calls[0]["job_type"], calls[0]["dir"]) == ("scgd", tmp_path / "log")


@pytest.mark.parametrize("name", ["csv", "wandb", "tensorboard"])
def test_other_ranks_open_nothing(bench, tmp_path, started, name):
    calls = started()
    log = make_logger(LoggerConfig(name), bench.card(), tmp_path / "log", rank=1)
    with log:
        assert type(log) is RunLog
        assert log.open(continued=False) is None
    assert calls == []
    assert not (tmp_path / "log").exists()


def test_a_refused_run_leaves_no_trace(bench, tmp_path, started):
    calls = started()
    with pytest.raises(LookupError), log_of(bench, tmp_path / "log"):
        raise LookupError
    assert calls == []
    assert not (tmp_path / "log").exists()


def test_a_wandb_that_cannot_start_costs_a_warning_and_nothing_else(bench, untimed, tmp_path, monkeypatch):
    def fail(**words):
        raise wandb.errors.CommError("nobody answers")

    plain = bench.train(bench.task(bench.solver("scgd"), passes=3), tmp_path / "a")
    monkeypatch.setattr(wandb, "init", fail)
    with pytest.warns(WandbFailed, match="while starting run 0123456789ab: CommError: nobody answers"):
        logged = bench.train(bench.task(bench.solver("scgd"), passes=3), tmp_path / "b", logger="wandb")
    assert untimed(logged.curve) == untimed(plain.curve)


def test_a_wandb_that_breaks_on_the_way_costs_one_warning(bench, tmp_path, started):
    started()
    with log_of(bench, tmp_path / "log") as log:
        log.open(continued=False)
        log.run.log = None
        with pytest.warns(WandbFailed, match="while logging run"):
            log.log_metrics({"objective": 1.0}, 0)
        log.log_metrics({"objective": 1.0}, 1)


def test_a_disabled_run_writes_nothing(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    module = bench.train(bench.task(bench.solver("scgd"), passes=2), tmp_path / "a", logger="wandb")
    assert len(module.curve) == 3
    assert runs_in(tmp_path) == []


@pytest.mark.parametrize(
    ("asked", "variables", "netrc", "mode"),
    [
        ("auto", {}, False, "offline"),
        ("auto", {"WANDB_API_KEY": "0" * 40}, False, "online"),
        ("auto", {}, True, "online"),
        ("auto", {"WANDB_MODE": "disabled", "WANDB_API_KEY": "0" * 40}, False, "disabled"),
        ("auto", {"WANDB_MODE": "online"}, False, "online"),
        ("offline", {"WANDB_MODE": "online", "WANDB_API_KEY": "0" * 40}, True, "offline"),
        ("online", {}, False, "online"),
    ],
)
def test_the_mode_is_the_one_asked_for_or_follows_the_login(asked, variables, netrc, mode, tmp_path, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if netrc:
        host = wandb.setup().settings.base_url.removeprefix("https://")
        (tmp_path / "netrc").write_text(f"machine {host} login user password {'0' * 40}\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert mode_of(LoggerConfig("wandb", mode=asked)) == mode


def test_two_cells_in_one_process_are_two_complete_runs(tmp_path):
    results = tmp_path / "results"
    records = [run(*SMALL, f"solver={name}", "logger=wandb", results=results) for name in ("gcivr", "scgd")]
    for record in records:
        logged = only_run_in(folder_of(results, record))
        assert (logged.identity, logged.job_type) == (record.run_id[:32], record.solver.name)
        assert logged.rows == as_logged(ResultStore(results).curve(record.run_id).to_dicts())
        assert logged.exit_codes == [0]
        assert logged.config["run_id"] == record.run_id
        assert logged.config["solver"] == {**record.solver.config, "name": record.solver.name}
        assert logged.config["budget"]["passes"] == 4
    assert len(runs_in(results)) == 2


def test_the_summary_is_the_record(tmp_path):
    record = run(*SMALL, "solver=gcivr", "solver.average=true", "logger=wandb", results=tmp_path / "results")
    logged = only_run_in(tmp_path / "results").summary
    for name in ("last", "average", "best_feasible"):
        assert logged[f"{name}/objective"] == getattr(record.iterates, name).objective
        assert logged[f"{name}/train_error"] == getattr(record.iterates, name).train_error
    assert (logged["status"], logged["reason"]) == ("budget_spent", record.reason)
    assert logged["seconds/solver"] == record.seconds.solver
    assert logged["seconds/total"] == record.seconds.total
    assert logged["oracle/inner_values"] == record.oracle.inner_values
    assert logged["optimum"] == record.optimum.value
    assert not any(isinstance(value, dict) for name, value in logged.items() if not name.startswith("_"))


def test_a_run_that_diverges_has_a_record_and_a_failed_run(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "_DIVERGENCE", -math.inf)
    record = run(*SMALL, "logger=wandb", results=tmp_path / "results")
    assert record.status is Status.DIVERGED
    logged = only_run_in(tmp_path / "results")
    assert logged.exit_codes == [1]
    assert logged.summary["status"] == record.status


def test_the_logger_changes_neither_id_nor_result(tmp_path):
    alone = run(*SMALL, results=tmp_path / "plain")
    logged = run(*SMALL, "logger=wandb", "logger.tags=[a,b]", "logger.project=other", results=tmp_path / "logged")
    assert logged.run_id == alone.run_id
    assert logged.iterates == alone.iterates
    found = only_run_in(tmp_path / "logged")
    assert (found.tags, found.project) == (["a", "b"], "other")


def test_a_finished_run_is_logged_once_when_it_is_asked_for(tmp_path):
    results = tmp_path / "results"
    before = run(*SMALL, results=results)
    assert not runs_in(results)
    after = run(*SMALL, "logger=wandb", results=results)
    assert after == before
    logged = only_run_in(results)
    assert logged.rows == as_logged(ResultStore(results).curve(before.run_id).to_dicts())
    assert logged.summary["last/objective"] == before.iterates.last.objective
    assert logged.exit_codes == [0]
    seen = logged.history[-1]["_timestamp"]
    run(*SMALL, "logger=wandb", results=results)
    assert only_run_in(results).history[-1]["_timestamp"] == seen


def test_a_finished_run_is_logged_again_for_an_agent(tmp_path, monkeypatch):
    results = tmp_path / "results"
    before = run(*SMALL, "logger=wandb", results=results)
    monkeypatch.setenv("WANDB_RUN_ID", "agents-run")
    run(*SMALL, "logger=wandb", results=results)
    logged = only_run_in(results)
    # The agent's own id is read by wandb itself, once in the life of a process; here, ours is not insisted on.
    assert logged.identity != before.run_id[:32]
    assert logged.summary["last/objective"] == before.iterates.last.objective


def test_summaries_leave_out_what_is_unknown(tmp_path):
    record = run(*SMALL, "budget.passes=1", results=tmp_path / "results")
    summary = summary_of(record)
    assert None not in summary.values()
    assert "average/objective" not in summary
    assert all(math.isfinite(value) for name, value in summary.items() if name.startswith("seconds/"))


def drobench(*words, cwd):
    """Run the command line in a process of its own, as somebody who is not logged in."""
    command = [str(Path(sys.executable).with_name("drobench")), *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=240)


def test_a_multirun_on_the_command_line_is_offline_and_one_group(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    ended = drobench("run", "-m", *SMALL, "solver=gcivr,scgd", "logger=wandb", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    assert [item.name for item in folder.iterdir()] == ["results"]
    first, second = runs_in(folder / "results")
    assert first.group == second.group
    assert first.group.startswith("multirun-2")
    assert {first.job_type, second.job_type} == {"gcivr", "scgd"}
    assert first.exit_codes == second.exit_codes == [0]


def test_a_sweep_is_a_group_with_its_leaderboard_as_an_artifact(tmp_path, monkeypatch):
    """The cells are finished before the sweep begins, which saves the start of its workers."""
    overrides, file, results = ", ".join(f'"{word}"' for word in SMALL), tmp_path / "tiny.yaml", tmp_path / "results"
    file.write_text(f"overrides: [{overrides}]\ngrid: {{solver: [gcivr, scgd]}}\n")
    catalogue = load_catalogue()
    register(catalogue)
    planned = plan(load_sweep(file), ["logger=wandb"], catalogue, results)
    assert [cell.config.logger.group for cell in planned.remaining] == ["tiny", "tiny"]
    for cell in planned.remaining:
        run_cell(cell.config, catalogue)
    assert [logged.group for logged in runs_in(results)] == ["tiny", "tiny"]
    monkeypatch.delenv("WANDB_DATA_DIR")
    with pytest.raises(SystemExit) as ended:
        main(["sweep", str(file), "logger=wandb", "--results", str(results)])
    assert ended.value.code == 0
    *_, board = runs_in(results)
    assert (board.job_type, board.group, board.exit_codes) == ("leaderboard", "tiny", [0])
    (artifact,) = [found for found in board.artifacts if found.type == "leaderboard"]
    assert artifact.name == "leaderboard-tiny"
    assert sorted(entry.path for entry in artifact.manifest.contents) == ["board_0.table.json", "leaderboard.md"]
    (row,) = board.rows
    assert [value for name, value in row.items() if name.endswith(".nrows")] == [2]
    assert all(Path(entry.local_path).is_relative_to(results) for entry in artifact.manifest.contents)


def test_a_board_becomes_a_table_of_numbers_with_gaps_where_there_are_none():
    first, second = tables_of(two_boards()).values()
    assert "board" not in first.columns
    shown = [first.columns.index(name) for name in ("solver", "gap", "rank", "rank_low", "compared_with")]
    assert [[row[place] for place in shown] for row in first.data] == [
        ["gcivr", 0.5, 1.0, None, ""],
        ["scgd", None, 2.0, None, "gcivr"],
    ]
    assert [row[second.columns.index("solver")] for row in second.data] == ["scgd"]


def two_boards():
    """Three rows; one has a gap, one is compared with another, and none has a rank interval."""

    def row(rank, solver, gap, comparison=None):
        metrics = dict.fromkeys(METRICS) | {"gap": gap and Summary(gap, gap, gap)}
        reached = (Reached(Target.of(gap=1e-4), 0.0, {}),)
        return Row(rank, solver, solver, {}, (0,), ("a",), 0, 1.0, metrics, reached=reached, comparison=comparison)

    def board(title, *rows):
        part = {"name": title, "config": {}}
        return Board(title, part, part, {}, {}, rows, "gap", (), reference="gcivr")

    against = Comparison("gcivr", "scgd", 1, 1, 0, 1.0, 1.0, False, "gap", None, None)
    boards = board("KL", row(1, "gcivr", 0.5), row(2, "scgd", None, against)), board("other", row(1, "scgd", 1.0))
    return Leaderboard(boards, "last", (Target.of(gap=1e-4),))


def sweep_files():
    return sorted((data_dir("sweeps") / "wandb").glob("*.yaml"))


def test_there_are_sweeps_for_wandb():
    assert len(sweep_files()) >= 2


@pytest.mark.parametrize("file", sweep_files(), ids=lambda file: file.stem)
def test_every_combination_of_a_wandb_sweep_composes(file, monkeypatch, tmp_path):
    """The words are put together as the agent does: each parameter as NAME=VALUE in place of the arguments."""
    sweep = yaml.safe_load(file.read_text())
    program, verb, *words = sweep["command"]
    assert (program, verb, words.pop(), sweep["program"]) == ("${program}", "run", "${args_no_hyphens}", "drobench")
    catalogue = load_catalogue()
    register(catalogue)
    parameters = {name: choice["values"] for name, choice in sweep["parameters"].items()}
    combinations = list(itertools.product(*parameters.values()))
    assert len(combinations) > 1
    with hydra_ready():
        for values in combinations:
            chosen = [f"{name}={value}" for name, value in zip(parameters, values, strict=True)]
            assert resolve(compose([*words, *chosen], catalogue)).logger.name == "wandb"


@pytest.mark.parametrize("file", sweep_files(), ids=lambda file: file.stem)
def test_the_metric_of_a_wandb_sweep_is_in_the_summary(file, tmp_path):
    sweep = yaml.safe_load(file.read_text())
    words = [word for word in sweep["command"][2:-1] if word != "logger=wandb"]
    small = ["budget.passes=null", "budget.seconds=null", "budget.target_gap=null", "budget.steps=2"]
    chosen = [f"{name}={choice['values'][0]}" for name, choice in sweep["parameters"].items()]
    record = run(*words, *small, *chosen, results=tmp_path / "results")
    assert math.isfinite(summary_of(record)[sweep["metric"]["name"]])


def test_a_key_in_the_settings_counts_as_logged_in(monkeypatch):
    class Settings:
        api_key = "0" * 40
        base_url = "https://example.invalid"

    class Library:
        settings = Settings()

    monkeypatch.setattr(wandb_session.wandb, "setup", Library)
    assert wandb_session.credentials_found()
