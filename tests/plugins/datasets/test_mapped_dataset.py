"""Runs on a mapped table: the results of data in memory, without the memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from drobench import load_solution, run
from drobench.app.cli import main
from drobench.data import mapped
from drobench.data.dataset import DataError
from drobench.objective.predictor import ModelConfig
from drobench.registry import load_catalogue
from drobench_plugins.datasets.mapped import MappedConfig, entry, load_mapped_dataset
from drobench_plugins.problems.divergence_classification import DivergenceClassification, KLClassificationConfig
from drobench_plugins.problems.wasserstein_logistic import WassersteinLogistic, WassersteinLogisticConfig

ROWS = 700


def frame(classes: int = 2) -> pl.DataFrame:
    generator = np.random.default_rng(8)
    features = generator.normal([0.0, 5.0, -1.0], [1.0, 3.0, 0.2], (ROWS, 3))
    margins = features @ [1.0, 0.5, -4.0] - 6.5 + generator.normal(size=ROWS)
    labels = np.digitize(margins, np.linspace(-1.0, 1.0, classes + 1)[1:-1])
    return pl.DataFrame(features, schema=["a", "b", "c"]).with_columns(kind=pl.Series([f"k{code}" for code in labels]))


def converted(folder: Path, classes: int = 2, dtype: str = "float64") -> tuple[str, str]:
    """The same rows as one Parquet file and as a table that the command line made of two."""
    whole = frame(classes)
    whole.write_parquet(folder / "whole.parquet")
    shards = folder / "shards"
    shards.mkdir()
    whole[:300].write_parquet(shards / "1.parquet")
    whole[300:].write_parquet(shards / "2.parquet")
    words = ["data", "convert", str(shards), "--label", "kind", "--dtype", dtype, "--output", str(folder / "table")]
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert not caught.value.code
    return str(folder / "whole.parquet"), str(folder / "table")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """A hundred rows at once."""
    monkeypatch.setattr(mapped, "_NUMBERS_AT_ONCE", 300)


SETTINGS = (
    "dataset.split=[1,0,0]",
    "solver=gcivr",
    "solver.step_size=0.3",
    "solver.epoch_length=20",
    "solver.batch=15",
    "budget.passes=null",
    "budget.steps=50",
)


@pytest.mark.convergence
@pytest.mark.parametrize(
    "words",
    [
        ("problem=kl_classification",),
        ("problem=kl_classification", "problem.variant=ball", "dataset.standardize=false"),
        ("problem=chi2_classification", "problem.variant=variance"),
        ("problem=cvar_classification", "problem.level=0.3", "model.intercept=false"),
        ("problem=kl_classification", "model=mlp", "model.hidden=[4]"),
        ("problem=kl_classification", "solver=unconstrained", "solver.batch=null"),
    ],
    ids=" ".join,
)
def test_a_run_on_the_table_finds_what_a_run_in_memory_finds(tmp_path, words):
    whole, table = converted(tmp_path)
    settings = [*SETTINGS, *words]
    if "solver=unconstrained" in words:
        settings = [word for word in settings if not word.startswith("solver.") or word == "solver.batch=null"]
    results = tmp_path / "results"
    other = run("dataset=tabular", f"dataset.path={whole}", "dataset.label=kind", *settings, results=results)
    record = run("dataset=mapped", f"dataset.path={table}", *settings, results=results)
    assert record.status == other.status == "budget_spent", record.reason
    assert record.oracle == other.oracle
    here, there = record.iterates.last, other.iterates.last
    assert here.objective == pytest.approx(there.objective, rel=1e-9)
    assert here.stationarity == pytest.approx(there.stationarity, rel=1e-6)
    assert here.train_error == there.train_error
    for name, value in there.extra.items():
        assert here.extra[name] == pytest.approx(value, rel=1e-9), name
    assert record.dataset.rows == ROWS
    assert record.optimum is None
    assert "stay in their file" in record.optimum_reason


@pytest.mark.convergence
def test_three_classes_are_scored_alike(tmp_path):
    whole, table = converted(tmp_path, classes=3)
    words = ("problem=kl_classification", "dataset.split=[1,0,0]", "budget.passes=null", "budget.steps=5")
    other = run("dataset=tabular", f"dataset.path={whole}", "dataset.label=kind", *words, results=tmp_path / "results")
    record = run("dataset=mapped", f"dataset.path={table}", *words, results=tmp_path / "results")
    assert record.iterates.last.objective == pytest.approx(other.iterates.last.objective, rel=1e-9)
    assert record.iterates.last.extra == pytest.approx(other.iterates.last.extra, rel=1e-9)


def test_validation_and_test_rows_are_scored_and_the_solution_predicts_raw_rows(tmp_path):
    _, table = converted(tmp_path, dtype="float32")
    words = ("dataset.split=[0.5,0.25,0.25]", "problem=kl_classification", "trainer.dtype=float32", "budget.passes=8")
    record = run("dataset=mapped", f"dataset.path={table}", *words, results=tmp_path / "results")
    predicted = load_solution(record.run_id, results=tmp_path / "results").predict(
        frame()[525:].drop("kind").to_numpy()
    )
    wrong = np.mean(predicted != frame()["kind"][525:].to_numpy())
    assert record.iterates.last.test_error == pytest.approx(wrong)
    assert record.iterates.last.validation_error is not None
    assert wrong < 0.3


def test_in_single_precision_a_table_in_single_precision_gives_the_same_losses(tmp_path):
    _, table = converted(tmp_path, dtype="float32")
    dataset = load_mapped_dataset(MappedConfig(path=table, split=[1, 0, 0], standardize=False)).to("cpu", torch.float32)
    problem = DivergenceClassification(KLClassificationConfig(), dataset, ModelConfig())
    point = torch.tensor([0.3, -0.2, 0.5, 0.1])
    rows = torch.from_numpy(frame().drop("kind").to_numpy()).float()
    signs = torch.from_numpy(np.where(frame()["kind"] == "k1", 1.0, -1.0)).float()
    losses = torch.nn.functional.softplus(-signs * (rows @ point[:3] + point[3]))
    assert problem.form.losses.values(point).dtype == torch.float32
    torch.testing.assert_close(problem.form.losses.values(point), losses, rtol=1e-5, atol=1e-6)
    assert float(problem.form.value(point)) == pytest.approx(
        float(torch.logsumexp(losses, 0) - np.log(ROWS) + 5e-4 * point.square().sum()), rel=1e-5
    )


def test_a_problem_that_needs_all_rows_at_once_is_refused(tmp_path):
    _, table = converted(tmp_path)
    dataset = load_mapped_dataset(MappedConfig(path=table))
    with pytest.raises(DataError, match="Use a problem that reads pieces, or a dataset in memory"):
        WassersteinLogistic(WassersteinLogisticConfig(), dataset, ModelConfig())


def test_without_a_folder_the_message_says_what_to_set():
    with pytest.raises(DataError, match=r"dataset\.path=DIR"):
        load_mapped_dataset(MappedConfig())


def test_the_command_line_verifies_a_table_and_finds_damage(tmp_path, capsys):
    _, table = converted(tmp_path)
    assert "'k0' is 0, 'k1' is 1" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["data", "verify", table])
    assert not caught.value.code
    assert f"{ROWS} rows, 3 columns" in capsys.readouterr().out
    with (Path(table) / "labels.npy").open("r+b") as stream:
        stream.seek(-1, 2)
        stream.write(b"\x07")
    with pytest.raises(SystemExit) as caught:
        main(["data", "verify", table])
    assert caught.value.code == 2
    assert "labels.npy is not what was written" in capsys.readouterr().err


def test_the_command_line_refuses_without_traceback(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["data", "convert", str(tmp_path), "--label", "kind", "--output", str(tmp_path / "table")])
    assert caught.value.code == 2
    assert capsys.readouterr().err.strip().startswith("drobench: There is no Parquet file")


def test_the_catalogue_has_it():
    assert load_catalogue().dataset("mapped").entry.name == entry().name == "mapped"


MEASURE = """
import json, math, sys, threading
from pathlib import Path
import numpy as np
from drobench import run
from drobench.data.stored_table import store_table

folder = Path(sys.argv[1])

def write(name, rows):
    generator = np.random.default_rng(0)
    def pieces():
        for first in range(0, rows, 100_000):
            count = min(100_000, rows - first)
            features = generator.standard_normal((count, 28), dtype=np.float32)
            yield features, features[:, 0] + generator.standard_normal(count) > 0
    columns = [f"x{number}" for number in range(28)]
    store_table(folder / name, pieces(), rows=rows, columns=columns, classes=[0, 1], dtype="float32")

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

def growth(table, *words):
    before, peak, done = anonymous(), 0, threading.Event()
    def watch():
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, anonymous())
    watcher = threading.Thread(target=watch)
    watcher.start()
    record = run("dataset=mapped", f"dataset.path={folder / table}", "dataset.split=[1,0,0]", "solver=gcivr",
                 "solver.epoch_length=5", "solver.step_size=0.1", "budget.passes=null", "budget.steps=7",
                 "evaluation.every_passes=100", *words,
                 results=folder / "results")
    done.set()
    watcher.join()
    assert record.status == "budget_spent", record.reason
    return peak - before

write("small", 1000)
write("large", 1_000_000)
growth("small")
single = ("trainer.dtype=float32", "dataset.standardize=false")
print(json.dumps({"single": growth("large", *single), "double": growth("large")}))
"""


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="RssAnon is what Linux reports")
def test_a_run_never_holds_a_copy_of_the_rows(tmp_path):
    """The table has 112 MB in single precision, and 224 MB in double."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    grown = json.loads(done.stdout.splitlines()[-1])
    assert grown["single"] < 80e6, grown
    assert grown["double"] < 160e6, grown
