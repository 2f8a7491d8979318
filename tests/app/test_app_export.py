"""An exported model gives the answers of its run, wherever it is read."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch

from drobench import load_solution, run
from drobench.app.export import DESCRIPTION, export
from drobench.data.encoding import coded_columns
from drobench.errors import DrobenchError

ROWS = 90


def raw_table() -> pl.DataFrame:
    generator = np.random.default_rng(8)
    size = [f"{value:.3f}" if value > -1.2 else "?" for value in generator.normal(size=ROWS)]
    colour = generator.choice(["red", "green", "NA"], ROWS)
    member = generator.choice(["true", "false"], ROWS)
    return pl.DataFrame({"size": size, "colour": colour, "member": member, "kind": ["a", "b", "c"] * 30})


def trained(folder, *words, label="kind"):
    path = folder / "t.csv"
    raw_table().write_csv(path)
    named = ("dataset=tabular", f"dataset.path={path}", f"dataset.label={label}", "dataset.missing=indicator")
    record = run(*named, "budget.passes=3", *words, results=folder / "results")
    return load_solution(record.run_id, results=folder / "results")


def answers(path, rows):
    extra = {DESCRIPTION: ""}
    module = torch.export.load(path, extra_files=extra).module()
    return {name: values.numpy() for name, values in module(torch.from_numpy(rows)).items()}, json.loads(
        extra[DESCRIPTION]
    )


@pytest.mark.parametrize("label", ["kind", "member"])
@pytest.mark.parametrize("model", [("model=linear",), ("model=linear", "model.intercept=false"), ("model=mlp",)])
def test_the_exported_model_scores_raw_rows_as_the_solution_does(model, label, tmp_path):
    solution = trained(tmp_path, *model, label=label)
    export(solution, tmp_path / "model.pt2")
    frame = raw_table()
    coded = coded_columns(solution.table, frame)
    found, description = answers(tmp_path / "model.pt2", coded)
    for rows in (1, 2, 60):
        some, _ = answers(tmp_path / "model.pt2", coded[:rows])
        np.testing.assert_allclose(some["scores"], found["scores"][:rows], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["scores"], solution.scores(frame), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["probabilities"], solution.predict_proba(frame), rtol=1e-12)
    assert description["outputs"] == ["scores", "probabilities"]
    labels = np.array(description["classes"])[found["probabilities"].argmax(axis=1)]
    np.testing.assert_array_equal(labels, solution.predict(frame))


def test_a_category_that_is_not_known_and_gaps_are_as_in_training(tmp_path):
    solution = trained(tmp_path)
    export(solution, tmp_path / "model.pt2")
    frame = {"size": ["", "0.5"], "colour": ["blue", None], "member": ["true", "false"]}
    found, _ = answers(tmp_path / "model.pt2", np.array([[np.nan, -1.0, 1.0], [0.5, np.nan, 0.0]]))
    np.testing.assert_allclose(found["scores"], solution.scores(frame), rtol=1e-12)


def test_images_and_numbers_are_exported(tmp_path):
    from sklearn.datasets import load_diabetes, load_digits

    image = run("dataset=digits", "model=cnn", "model.channels=[4]", "budget.passes=1", results=tmp_path)
    solution = load_solution(image.run_id, results=tmp_path)
    export(solution, tmp_path / "image.pt2")
    pixels = load_digits().data[:5]
    found, description = answers(tmp_path / "image.pt2", pixels)
    np.testing.assert_allclose(found["scores"], solution.scores(pixels), rtol=1e-9, atol=1e-12)
    assert description["classes"] == list(range(10))

    number = run("problem=kl_regression", "dataset=diabetes", "budget.passes=2", results=tmp_path)
    solution = load_solution(number.run_id, results=tmp_path)
    export(solution, tmp_path / "number.pt2")
    rows = load_diabetes(scaled=False).data[:5]
    found, description = answers(tmp_path / "number.pt2", rows)
    np.testing.assert_allclose(found["predictions"], solution.predict(rows), rtol=1e-12)
    assert (description["outputs"], description["target_scale"]) == (["predictions"], 100.0)


def test_scores_without_probabilities_stay_scores(tmp_path):
    solution = trained(tmp_path, "problem.loss=hinge", "solver=unconstrained", label="member")
    export(solution, tmp_path / "model.pt2")
    found, description = answers(tmp_path / "model.pt2", coded_columns(solution.table, raw_table()))
    assert list(found) == description["outputs"] == ["scores"]


def test_the_description_stands_inside_and_beside(tmp_path):
    solution = trained(tmp_path)
    beside = export(solution, tmp_path / "model.pt2", "best_feasible")
    assert beside == tmp_path / "model.json"
    described = json.loads(beside.read_text())
    assert described == answers(tmp_path / "model.pt2", np.zeros((1, 3)))[1]
    assert described["run_id"] == solution.record.run_id
    assert described["iterate"] == "best_feasible"
    assert described["features"] == list(solution.feature_names)
    assert [column["name"] for column in described["columns"]] == ["size", "colour", "member"]
    assert described["columns"][1]["categories"] == ["green", "red"]


def test_a_model_that_cannot_be_traced_is_named(tmp_path, monkeypatch):
    solution = trained(tmp_path)

    class Restless(torch.nn.Module):
        def forward(self, rows):
            return rows[:, :3] if bool(rows.sum() > 0) else rows[:, 1:4]

    monkeypatch.setattr("drobench.objective.predictor.LinearPredictor.module", lambda self, point: Restless())
    with pytest.raises(DrobenchError, match="Model 'linear' cannot be exported"):
        export(solution, tmp_path / "model.pt2")
    assert not (tmp_path / "model.pt2").exists()


READER = """
import json, sys
sys.modules["drobench"] = sys.modules["drobench_plugins"] = None
import torch
model = torch.export.load(sys.argv[1]).module()
rows = torch.tensor(json.loads(sys.argv[2]), dtype=torch.float64)
print(json.dumps({name: values.tolist() for name, values in model(rows).items()}))
"""


@pytest.mark.process
@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_a_program_without_drobench_reads_it(model, tmp_path):
    solution = trained(tmp_path, f"model={model}")
    export(solution, tmp_path / "model.pt2")
    rows = [[float("nan"), 0.0, 1.0], [0.3, 1.0, 0.0]]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", READER, str(tmp_path / "model.pt2"), json.dumps(rows)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    frame = {"size": [None, 0.3], "colour": ["green", "red"], "member": [True, False]}
    np.testing.assert_allclose(json.loads(done.stdout)["scores"], solution.scores(frame), rtol=1e-12)
