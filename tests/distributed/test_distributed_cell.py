"""A cell with several processes, from the interface to the record."""

import csv

import pytest

pytestmark = pytest.mark.process

CELL = (
    "dataset=synthetic",
    "dataset.rows=600",
    "dataset.features=5",
    "problem=kl_classification",
    "model.intercept=false",
    "solver=gcivr",
    "solver.step_size=1.0",
    "solver.epoch_length=30",
    "solver.batch=10",
    "budget.passes=null",
    "budget.steps=300",
    "seed=4",
)


@pytest.fixture(scope="module")
def together(launched):
    """The record of two processes and the folder it is in."""
    record, folder = launched(*CELL, "trainer=ddp_cpu", "trainer.checkpoint_steps=50", "logger=csv")
    assert record.status == "budget_spent", record.reason
    return record, folder


@pytest.fixture(scope="module")
def alone(launched):
    return launched(*CELL)[0]


def test_two_processes_find_what_one_finds(together, alone):
    record, _ = together
    assert record.status == alone.status == "budget_spent"
    assert record.reason == alone.reason == "steps 300 of 300"
    for name in ("last", "best_feasible"):
        several, one = getattr(record.iterates, name), getattr(alone.iterates, name)
        assert several.objective == pytest.approx(one.objective, rel=0, abs=1e-12)
        assert several.gap == pytest.approx(one.gap, rel=0, abs=1e-12)
        assert several.train_error == one.train_error
        assert several.step == one.step if name == "last" else several.step > 0
    assert record.oracle == alone.oracle
    assert record.optimum == alone.optimum


def test_the_record_says_how_many_processes_there_were(together, alone):
    record, _ = together
    assert record.environment.world_size == 2
    assert record.trainer["devices"] == 2
    assert alone.environment.world_size == 1
    assert record.run_id != alone.run_id


def test_what_was_exchanged_is_counted_and_the_harness_is_not(together, alone):
    """Ten epochs on two ranks: two rounds with 7 numbers for a refresh, one with 7 numbers for each other step."""
    record, _ = together
    assert record.communication.rounds == 2 * 10 + 290
    assert record.communication.bytes == 2 * 8 * (7 * 10 + 7 * 290)
    assert alone.communication.rounds == alone.communication.bytes == 0


def test_exactly_one_record_is_left_and_nothing_of_the_work(together, left_behind):
    record, folder = together
    results = folder / "results"
    assert [path.parent.name for path in results.glob("*/record.json")] == [record.run_id]
    assert not (results / ".work" / record.run_id).exists()
    assert left_behind(folder) == {}


def test_nothing_is_left_among_the_temporary_files(together):
    """Apart from torch's cache of compiled code, which all programs share."""
    _, folder = together
    left = [path.name for path in folder.iterdir() if not path.name.startswith("torchinductor_")]
    assert left == ["results"]


def test_the_curve_and_the_log_are_written_once(together):
    from drobench.results.store import ResultStore

    record, folder = together
    curve = ResultStore(folder / "results").curve(record.run_id)
    assert curve["step"].to_list() == sorted(set(curve["step"].to_list()))
    assert curve["step"].to_list()[-1] == 300
    assert curve["communication_rounds"].to_list()[-1] == record.communication.rounds
    with (folder / "results" / ".logs" / record.run_id / "metrics.csv").open(newline="") as file:
        logged = list(csv.DictReader(file))
    assert [int(row["step"]) for row in logged] == curve["step"].to_list()
    assert [float(row["objective"]) for row in logged] == curve["objective"].to_list()


def test_a_finished_cell_is_not_started_again(together, monkeypatch):
    from drobench import run
    from drobench.app import cell

    def refuse(*_):
        raise AssertionError("the cell was computed again")

    monkeypatch.setattr(cell, "start_ranks", refuse)
    record, folder = together
    overrides = (*CELL, "trainer=ddp_cpu", "trainer.checkpoint_steps=50", "logger=csv")
    assert run(*overrides, results=folder / "results") == record
