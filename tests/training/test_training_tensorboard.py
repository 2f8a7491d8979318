"""What TensorBoard reads back, and what is said where it is not installed."""

import importlib.util

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from drobench.errors import DrobenchError
from drobench.registry import load_catalogue
from drobench.training.loggers import check_logger


def scalars_in(folder):
    """Return the curves of the only event file in a folder: step -> value by name."""
    (file,) = folder.glob("events.*")
    events = EventAccumulator(str(file)).Reload()
    return {name: {event.step: event.value for event in events.Scalars(name)} for name in events.Tags()["scalars"]}


def expected(curve):
    """Return the same from a curve."""
    names = {name for row in curve for name, value in row.items() if value is not None}
    return {
        name: {row["step"]: pytest.approx(float(row[name]), rel=1e-6) for row in curve if row[name] is not None}
        for name in names
    }


def test_the_event_file_is_the_curve(bench, tmp_path):
    module = bench.train(bench.task(bench.solver("scgd"), passes=4), tmp_path, logger="tensorboard")
    assert len(module.curve) == 5
    assert scalars_in(tmp_path / "log") == expected(module.curve)


def test_the_configuration_is_beside_it(bench, tmp_path):
    bench.train(bench.task(bench.solver("scgd"), passes=1), tmp_path, logger="tensorboard")
    text = (tmp_path / "log" / "hparams.yaml").read_text()
    assert bench.card().run_id in text
    assert "batch: 16" in text


def test_a_resumed_run_has_the_whole_curve_in_one_file(bench, tmp_path):
    def killed(row):
        if row["passes"] >= 3:
            raise ConnectionError

    task = bench.task(bench.solver("scgd"), passes=5)
    with pytest.raises(ConnectionError):
        bench.train(task, tmp_path, logger="tensorboard", on_evaluation=killed, checkpoint_steps=1)
    module = bench.train(task, tmp_path, logger="tensorboard", checkpoint_steps=1)
    assert len(module.curve) == 6
    assert scalars_in(tmp_path / "log") == expected(module.curve)


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DrobenchError, match=r"logger=tensorboard needs .*pip install 'drobench\[tensorboard\]'"):
        check_logger(load_catalogue().logger("tensorboard").entry)
    check_logger(load_catalogue().logger("csv").entry)


def test_a_missing_package_stops_a_run_before_anything_is_recorded(monkeypatch, tmp_path):
    from drobench import run

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "tensorboard" else real(name, *rest)
    )
    with pytest.raises(DrobenchError, match="tensorboard"):
        run("logger=tensorboard", results=tmp_path / "results")
    assert not (tmp_path / "results").exists()
