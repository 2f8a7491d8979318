"""The program of a rank, alone; several of them meet in tests/distributed."""

import json
import sys

import pytest
from app_samples import catalogue_with, guest

from drobench.app import one_run
from drobench.app.config import to_yaml
from drobench.app.launching import reference_to_dict
from drobench.app.optimum import Reference
from drobench.results.record import Status


@pytest.fixture
def resolved(configure, tmp_path):
    """Write the configuration of a small run as `--cfg job --resolve` prints it."""

    def write(*words, **options):
        file = tmp_path / "resolved.yaml"
        file.write_text(to_yaml(configure(*words, **options)))
        return file

    return write


def test_one_process_does_what_the_command_does(resolved, results):
    record = one_run.be_rank(resolved("seed=5"))
    assert (record.status, record.seed) == (Status.BUDGET_SPENT, 5)
    assert (results / record.run_id / "record.json").is_file()


def test_a_known_optimum_is_used_and_not_sought(resolved, results, tmp_path):
    known = tmp_path / "optimum.json"
    known.write_text(json.dumps(reference_to_dict(Reference(None, "somebody else knows"))))
    record = one_run.be_rank(resolved(), known)
    assert record.optimum_reason == "somebody else knows"
    assert not (results / ".optima").exists()


@pytest.mark.parametrize("refused", [True, False])
def test_a_rank_that_fails_writes_down_why(resolved, results, tmp_path, monkeypatch, refused):
    def fail(state, oracle):
        raise ArithmeticError("broken on purpose")

    guests = catalogue_with(
        solvers=(guest("broken", fail, accepts=(Reference,)) if refused else guest("broken", fail),)
    )
    monkeypatch.setattr(one_run, "load_catalogue", lambda: guests)
    known = tmp_path / "optimum.json"
    known.write_text(json.dumps(reference_to_dict(Reference(None, "not needed"))))
    with pytest.raises(Exception, match="No way from" if refused else "broken on purpose"):
        one_run.be_rank(resolved("solver=broken", using=guests), known)
    (note,) = (results / ".work").glob("*/rank0.json")
    assert ("NoRouteError" if refused else "ArithmeticError: broken on purpose") in json.loads(note.read_text())[
        "reason"
    ]


def test_another_number_of_processes_is_refused_with_the_command_for_this_one(resolved, monkeypatch, capsys):
    file = resolved("trainer=ddp_cpu", "trainer.devices=2")
    monkeypatch.setattr(sys, "argv", ["one_run", str(file)])
    monkeypatch.setattr(one_run, "end_with_parent", lambda number, parent: None)
    assert one_run.main() == 2
    shown = capsys.readouterr().err
    assert "for 2 processes" in shown
    assert "found 1" in shown
    assert "torchrun --nnodes 1 --nproc-per-node 2" in shown


def test_the_program_ends_with_the_code_of_its_run(resolved, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["one_run", str(resolved())])
    monkeypatch.setattr(one_run, "end_with_parent", lambda number, parent: None)
    assert one_run.main() == 0
