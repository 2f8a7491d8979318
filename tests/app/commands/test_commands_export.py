"""`drobench export`."""

import pytest
import torch

from drobench import run
from drobench.app.cli import main


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return folder, run("dataset=breast_cancer", "solver=scgd", "budget.passes=2", results=folder)


def command(*words) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


@pytest.mark.parametrize("iterate", ["last", "average"])
def test_a_model_is_written_with_its_description(iterate, trained, tmp_path, capsys):
    folder, record = trained
    output = tmp_path / "models" / "model.pt2"
    assert command("export", record.short_id, output, "--results", folder, "--iterate", iterate) == 0
    told = capsys.readouterr().out
    assert "30 raw columns" in told
    assert f'"iterate": "{iterate}"' in output.with_suffix(".json").read_text()
    scores = torch.export.load(output).module()(torch.zeros(4, 30, dtype=torch.float64))["scores"]
    assert scores.shape == (4,)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ffff", "model.pt2"), "ffff"),
        (("{run}", "model.onnx"), "a name that ends in .pt2; found model.onnx"),
    ],
)
def test_what_cannot_be_is_refused(words, told, trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, record = trained
    words = [word.replace("{run}", record.short_id) for word in words]
    assert command("export", *words, "--results", folder) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
