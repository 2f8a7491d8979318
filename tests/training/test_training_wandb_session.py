"""How a session at Weights & Biases is begun: online, offline or not at all."""

import pytest
import wandb
from wandb_file import runs_in

from drobench.registry import load_catalogue
from drobench.training import wandb_session
from drobench.training.loggers import make_log
from drobench.training.run_log import RunLog
from drobench.training.settings import WandbConfig
from drobench.training.wandb_log import WandbLog
from drobench.training.wandb_session import WandbFailed, mode_of

pytestmark = pytest.mark.usefixtures("nobody_is_logged_in")


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
    assert mode_of(WandbConfig(mode=asked)) == mode


def test_a_key_in_the_settings_counts_as_logged_in(monkeypatch):
    class Settings:
        api_key = "0" * 40
        base_url = "https://example.invalid"

    class Library:
        settings = Settings()

    monkeypatch.setattr(wandb_session.wandb, "setup", Library)
    assert wandb_session.credentials_found()


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
    return WandbLog(WandbConfig(mode="offline", **settings), bench.card(), folder)


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
    entry = load_catalogue().logger(name).entry
    log = make_log(entry, entry.config(), bench.card(), tmp_path / "log", rank=1)
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
