"""The log of a run: beside the record, once, and also for a run that is finished."""

import dataclasses
from types import SimpleNamespace
from typing import ClassVar

import polars
import pytest
from pytorch_lightning.loggers import Logger

from drobench.app.cell import run_cell
from drobench.app.config import ConfigError, compose, from_yaml, hydra_ready, register, resolve, to_yaml
from drobench.app.prepare import prepare
from drobench.app.run_logs import Replay, log_of, replay
from drobench.registry import LoggerEntry
from drobench.registry.catalogue import Registered
from drobench.results.store import ResultStore


def log_for(prepared, results):
    return log_of(prepared.config, prepared.run_id, prepared.catalogue, results)


def stored_log(prepared, results):
    return replay(prepared.config, prepared.run_id, prepared.catalogue, ResultStore(results))


def test_the_csv_logger_writes_beside_the_run_not_into_it(configure, catalogue, results):
    plain = run_cell(configure(), catalogue)
    config = configure("logger=csv")
    config.results = str(results.with_name("others"))
    logged = run_cell(config, catalogue)
    results = results.with_name("others")
    assert logged.run_id == plain.run_id
    metrics = polars.read_csv(results / ".logs" / plain.run_id / "metrics.csv")
    assert metrics["objective"].len() == ResultStore(results).curve(plain.run_id).height


def test_only_the_first_rank_logs(configure, catalogue, results, monkeypatch):
    prepared = prepare(configure("logger=csv"), catalogue)
    # Set by some launcher further out, and not for us.
    monkeypatch.setenv("RANK", "1")
    assert log_for(prepared, results).open(continued=False) is not None
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    assert log_for(prepared, results).open(continued=False) is None


def test_a_finished_run_is_logged_where_its_log_is_missing_and_says_so(configure, catalogue, results, capsys):
    record = run_cell(configure(), catalogue)
    logs = results / ".logs" / record.run_id
    assert not logs.exists()
    assert capsys.readouterr().err == ""
    assert run_cell(configure("logger=csv"), catalogue) == record
    assert f"run {record.short_id} was there already; curve and outcome replayed to logger=csv" in (
        capsys.readouterr().err
    )
    metrics = polars.read_csv(logs / "metrics.csv")
    assert metrics["step"].to_list() == ResultStore(results).curve(record.run_id)["step"].to_list()
    before = (logs / "metrics.csv").stat().st_mtime_ns
    assert stored_log(prepare(configure("logger=csv"), catalogue), results) is Replay.THERE
    run_cell(configure("logger=csv"), catalogue)
    assert "was there already; logged before by logger=csv" in capsys.readouterr().err
    assert (logs / "metrics.csv").stat().st_mtime_ns == before


def test_a_second_logger_gets_the_run_and_leaves_the_first_alone(configure, catalogue, results):
    record = run_cell(configure("logger=csv"), catalogue)
    logs = results / ".logs" / record.run_id
    first = (logs / "metrics.csv").read_text()
    assert run_cell(configure("logger=tensorboard"), catalogue) == record
    assert len(list(logs.glob("events.out.tfevents.*"))) == 1
    (logs / ".logged-csv").unlink()
    assert stored_log(prepare(configure("logger=csv"), catalogue), results) is Replay.DONE
    assert (logs / "metrics.csv").read_text() == first
    assert len(list(logs.glob("events.out.tfevents.*"))) == 1


class Notebook(Logger):
    """A logger of a stranger, which only remembers."""

    rows: ClassVar[list] = []
    name, version = "notebook", 0

    def log_hyperparams(self, params, *args, **kwargs):
        pass

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, dict(metrics)))


@dataclasses.dataclass
class NotebookConfig:
    pages: int = 3


def with_logger(catalogue, **settings):
    entry = LoggerEntry(name="notebook", summary="A notebook.", config=NotebookConfig, **settings)
    there = {**catalogue.loggers, "notebook": Registered(entry, "notebook", "strangers", "1.0")}
    return dataclasses.replace(catalogue, loggers=there)


def test_a_strangers_logger_is_a_choice_with_settings_of_its_own(catalogue):
    guests = with_logger(catalogue, factory=lambda *_: Notebook())
    register(guests)
    with hydra_ready():
        config = resolve(compose(["logger=notebook", "logger.pages=5"], guests))
        assert (config.logger.name, config.logger.pages) == ("notebook", 5)
        with pytest.raises(ConfigError, match=r"no setting `logger\.page`.* Did you mean 'logger\.pages'"):
            resolve(compose(["logger=notebook", "logger.page=5"], guests))
        with pytest.raises(ConfigError, match="pages"):
            resolve(compose(["logger=notebook", "logger.pages=many"], guests))
    # Whoever reads a stored configuration need not have the logger.
    assert from_yaml(to_yaml(config), catalogue).logger.name == "none"
    assert from_yaml(to_yaml(config), guests, logged=True).logger.pages == 5


def test_a_strangers_logger_gets_curve_and_outcome_of_a_stored_run(configure, catalogue, results):
    catalogue = with_logger(catalogue, factory=lambda *_: Notebook())
    record = run_cell(configure(), catalogue)
    config = configure()
    config.logger = SimpleNamespace(name="notebook")
    prepared = dataclasses.replace(prepare(configure(), catalogue), config=config)
    Notebook.rows.clear()
    assert stored_log(prepared, results) is Replay.DONE
    curve = ResultStore(results).curve(record.run_id)
    *rows, (step, outcome) = Notebook.rows
    assert [step for step, _ in rows] == curve["step"].to_list()
    assert [row["objective"] for _, row in rows] == curve["objective"].to_list()
    assert step == record.iterates.last.step
    assert outcome["summary/last/objective"] == record.iterates.last.objective
    assert all(isinstance(value, float) for value in outcome.values())


def test_without_a_logger_nothing_is_said(configure, catalogue, results):
    run_cell(configure(), catalogue)
    assert stored_log(prepare(configure(), catalogue), results) is None


@pytest.mark.parametrize("name", ["csv", "tensorboard"])
def test_settings_of_another_logger_are_refused(configure, name):
    with pytest.raises(Exception, match=r"no setting `project`; it is one of logger=wandb"):
        configure(f"logger={name}", "logger.project=mine", base=())
