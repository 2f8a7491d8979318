"""A command that is killed goes on where it was when it is given again, to the last bit."""

import pytest
import torch

from drobench.results.store import ResultStore

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("breakable")]
CELL = (
    "dataset=synthetic",
    "dataset.rows=300",
    "problem=kl_classification",
    "solver=breakable",
    "budget.passes=null",
    "budget.steps=400",
    "trainer=ddp_cpu",
    "trainer.checkpoint_steps=50",
)
STOPS_AT = 250


def untimed(store, run_id):
    return store.curve(run_id).drop("solver_seconds")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_command_leaves_no_process_and_goes_on_bit_for_bit(
    launched, command_at_work, left_behind, tmp_path, processes
):
    cell = (*CELL, f"trainer.devices={processes}")
    command = command_at_work(tmp_path, *cell, BREAKABLE_STOPS_AT=str(STOPS_AT))
    # The command, and if there are several ranks, these and their launcher.
    assert len(left_behind(tmp_path, seconds=0.0)) == {1: 1, 2: 4}[processes]
    command.kill()
    command.wait()
    # Nobody is there any more to end launcher and ranks, so they have to do it themselves.
    assert left_behind(tmp_path, seconds=30.0) == {}
    (file,) = tmp_path.glob("results/.work/*/last.ckpt")
    assert not list(tmp_path.glob("results/*/record.json"))
    saved = torch.load(file, weights_only=True)["drobench"]
    assert 0 < saved["steps"] < STOPS_AT
    assert len(saved["ranks"]) == processes

    resumed, _ = launched(*cell, folder=tmp_path)
    straight, other = launched(*cell)
    assert resumed.status == straight.status == "budget_spent", resumed.reason
    assert resumed.run_id == straight.run_id
    assert resumed.iterates == straight.iterates
    assert resumed.oracle == straight.oracle
    assert resumed.communication == straight.communication
    here, there = ResultStore(tmp_path / "results"), ResultStore(other / "results")
    solutions = [(store.root / straight.run_id / "solution.safetensors").read_bytes() for store in (here, there)]
    assert solutions[0] == solutions[1]
    assert untimed(here, straight.run_id).equals(untimed(there, straight.run_id))
    # The beginning was not computed again: its times are those of the file.
    kept = [row["solver_seconds"] for row in saved["curve"]]
    assert len(kept) > 1
    assert here.curve(straight.run_id)["solver_seconds"].to_list()[: len(kept)] == kept
    assert not file.exists()


def cut_off(content):
    return content[: len(content) // 2]


def emptied(content):
    return b""


def exchanged(content):
    return b"no checkpoint at all" * 100


@pytest.mark.parametrize("damage", [cut_off, emptied, exchanged])
def test_a_damaged_checkpoint_is_set_aside_and_the_run_starts_over(launched, tmp_path, capsys, monkeypatch, damage):
    from drobench.training.checkpointing import PeriodicCheckpoint

    def die(self, trainer, module, *_):
        trainer.save_checkpoint(self.path)
        raise KeyboardInterrupt

    cell = (*CELL, "trainer.devices=1")
    with monkeypatch.context() as patch:
        patch.setattr(PeriodicCheckpoint, "on_train_batch_end", die)
        with pytest.raises(KeyboardInterrupt):
            launched(*cell, folder=tmp_path)
    (file,) = tmp_path.glob("results/.work/*/last.ckpt")
    content = damage(file.read_bytes())
    file.write_bytes(content)
    record, _ = launched(*cell, folder=tmp_path)
    assert record.status == "budget_spent"
    said = capsys.readouterr().err
    assert "cannot be continued" in said
    assert "starts over" in said
    (aside,) = tmp_path.glob("results/.damaged/*.ckpt")
    assert str(aside) in said
    assert aside.read_bytes() == content
    straight, _ = launched(*cell)
    assert record.iterates == straight.iterates
