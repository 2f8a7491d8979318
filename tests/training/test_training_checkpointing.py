"""A run that was interrupted goes on as if nothing had happened."""

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.files import file_sha256
from drobench.training.checkpointing import note_digests, noted_digests, set_aside, why_unusable

SOLVERS = ["gcivr", "gcivr_random", "gcivr_average", "scgd", "adam", "adagrad"]
PASSES = 14


class StoppedError(Exception):
    pass


def interrupt_after(passes):
    def report(row):
        if row["passes"] >= passes:
            raise StoppedError

    return report


def by_an_error(bench, solver, folder):
    with pytest.raises(StoppedError):
        bench.train(bench.task(solver, passes=PASSES), folder, checkpoint_steps=1, on_evaluation=interrupt_after(6))


def by_a_smaller_budget(bench, solver, folder):
    bench.train(bench.task(solver, passes=6), folder, checkpoint_steps=1)


def by_time(bench, solver, folder):
    with pytest.raises(StoppedError):
        bench.train(
            bench.task(solver, passes=PASSES), folder, checkpoint_seconds=1e-6, on_evaluation=interrupt_after(6)
        )


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("interrupted", [by_an_error, by_a_smaller_budget, by_time])
def test_a_resumed_run_is_the_straight_run_bit_for_bit(bench, same, untimed, tmp_path, name, interrupted):
    straight = bench.train(bench.task(bench.solver(name), passes=PASSES), tmp_path / "straight")
    interrupted(bench, bench.solver(name), tmp_path / "resumed")
    saved = torch.load(tmp_path / "resumed" / "last.ckpt", weights_only=True)["drobench"]
    assert 0 < saved["steps"] < straight.steps
    resumed = bench.train(bench.task(bench.solver(name), passes=PASSES), tmp_path / "resumed")

    assert resumed.steps == straight.steps
    assert resumed.verdict == straight.verdict
    assert resumed.final.keys() == straight.final.keys()
    for iterate, (scores, point) in straight.final.items():
        assert torch.equal(resumed.final[iterate][1], point)
        assert resumed.final[iterate][0] == scores
    assert same(resumed.oracle.state_dict(), straight.oracle.state_dict())
    assert resumed.counts() == straight.counts()
    assert untimed(resumed.curve) == untimed(straight.curve)
    # The part before the interruption was taken over, not computed again: no two runs share their times.
    kept = len(saved["curve"])
    assert kept >= 5
    assert resumed.curve[:kept] == saved["curve"]
    assert resumed.curve[kept]["solver_seconds"] > saved["ranks"][0]["seconds"]["solver"]


def test_the_iterates_that_are_compared_are_there(bench, tmp_path):
    """The comparison above means little for an iterate that no run has, or that equals another."""
    random, average = (
        bench.train(bench.task(bench.solver(name), passes=PASSES), tmp_path / name)
        for name in ("gcivr_random", "gcivr_average")
    )
    assert not torch.equal(random.final["last"][1], random.solver_state.point)
    assert not torch.equal(average.final["average"][1], average.final["last"][1])


def test_lightning_goes_on_counting_where_it_was(bench, tmp_path):
    by_a_smaller_budget(bench, bench.solver("scgd"), tmp_path)
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    resumed = bench.train(bench.task(bench.solver("scgd"), passes=PASSES), tmp_path)
    # At least one training step for each evaluation that is still to come.
    assert saved["global_step"] >= 5
    assert resumed.trainer.global_step >= saved["global_step"] + len(resumed.curve) - len(saved["drobench"]["curve"])


def test_a_checkpoint_is_plain_data_with_one_state_per_process(bench, same, tmp_path):
    bench.train(bench.task(bench.solver("gcivr_average"), passes=6), tmp_path, checkpoint_seconds=1e-6)
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)["drobench"]
    assert len(saved["ranks"]) == 1
    (mine,) = saved["ranks"]
    assert mine["oracle"]["counters"]["sample_calls"] / bench.samples == saved["curve"][-1]["passes"]
    assert saved["steps"] == saved["curve"][-1]["step"]
    assert mine["state"]["trail"]["visited"] > 0
    assert isinstance(mine["state"]["point"], torch.Tensor)
    assert not (tmp_path / "last.partial").exists()


@pytest.mark.parametrize("chunk_seconds", [0.0, 1e6])
@pytest.mark.parametrize("every", [1, 25])
def test_checkpoints_are_written_at_the_steps_asked_for_on_any_machine(
    bench, told, monkeypatch, tmp_path, every, chunk_seconds
):
    """A fast machine comes back at evaluations, after every ten steps; a slow one after each step."""
    import pytorch_lightning as pl

    from drobench.training import loop

    monkeypatch.setattr(loop, "_CHUNK_SECONDS", chunk_seconds)
    written = []
    original = pl.Trainer.save_checkpoint

    def save(self, *arguments, **settings):
        written.append(self.lightning_module.steps)
        original(self, *arguments, **settings)

    monkeypatch.setattr(pl.Trainer, "save_checkpoint", save)
    bench.train(bench.task(told(lambda point, step: point), steps=100), tmp_path, checkpoint_steps=every)
    # None at the end: there is nothing left to continue.
    assert written == list(range(every, 100, every))


def test_no_checkpoint_is_written_unless_asked_for(bench, tmp_path):
    bench.train(bench.task(bench.solver("scgd"), passes=3), tmp_path)
    bench.train(bench.task(bench.solver("scgd"), passes=3), tmp_path, checkpoint_seconds=1e6, checkpoint_steps=10**9)
    assert not (tmp_path / "last.ckpt").exists()


def test_a_checkpoint_from_before_there_were_totals_is_continued(bench, same, untimed, tmp_path):
    straight = bench.train(bench.task(bench.solver("scgd"), passes=PASSES), tmp_path / "straight")
    by_a_smaller_budget(bench, bench.solver("scgd"), tmp_path)
    file, task = tmp_path / "last.ckpt", bench.task(bench.solver("scgd"), passes=PASSES)
    saved = torch.load(file, weights_only=True)
    del saved["drobench"]["quiet_steps"]
    for rank in saved["drobench"]["ranks"]:
        del rank["oracle"]["totals"]
    torch.save(saved, file)
    note_digests(file, file_sha256(file))
    assert why_unusable(file, task) is None
    resumed = bench.train(task, tmp_path)
    assert untimed(resumed.curve) == untimed(straight.curve)
    assert same(resumed.oracle.state_dict(), straight.oracle.state_dict())


@pytest.mark.parametrize("change", ["older", "newer", "elsewhere"])
def test_a_checkpoint_of_other_code_is_found_unusable(bench, tmp_path, change):
    by_a_smaller_budget(bench, bench.solver("scgd"), tmp_path)
    file, task = tmp_path / "last.ckpt", bench.task(bench.solver("scgd"), passes=PASSES)
    assert why_unusable(file, task) is None
    forged = torch.load(file, weights_only=True)
    (rank,) = forged["drobench"]["ranks"]
    if change == "older":
        del rank["state"]["point"]
    elif change == "newer":
        rank["oracle"]["counters"]["guesses"] = 3
    else:
        forged = {"weights": torch.zeros(2)}
    torch.save(forged, file)
    note_digests(file, file_sha256(file))
    assert why_unusable(file, task).split(":")[0] in ("TypeError", "KeyError")


def test_a_number_that_has_changed_makes_a_checkpoint_unusable(bench, tmp_path):
    """Torch reads it without a word, and a run would go on from another point."""
    by_a_smaller_budget(bench, bench.solver("scgd"), tmp_path)
    file, task = tmp_path / "last.ckpt", bench.task(bench.solver("scgd"), passes=PASSES)
    (rank,) = torch.load(file, weights_only=True)["drobench"]["ranks"]
    point = rank["state"]["point"].numpy().tobytes()
    file.write_bytes(file.read_bytes().replace(point, bytes([point[0] ^ 0x20]) + point[1:]))
    (changed,) = torch.load(file, weights_only=True)["drobench"]["ranks"]
    assert not torch.equal(changed["state"]["point"], rank["state"]["point"])
    assert "checksum" in why_unusable(file, task)


class KilledError(BaseException):
    pass


@pytest.mark.parametrize("point", ["before the list", "after the list", "after the file"])
@pytest.mark.parametrize("time", [1, 3])
def test_a_checkpoint_is_usable_wherever_its_writer_is_killed(bench, monkeypatch, tmp_path, point, time):
    from pathlib import Path

    from drobench.training import checkpointing

    calls = []

    def killed(at, act):
        def call(*words):
            calls.append(at)
            if calls.count(at) == time and point == f"before the {at}":
                raise KilledError
            found = act(*words)
            if calls.count(at) == time and point == f"after the {at}":
                raise KilledError
            return found

        return call

    with monkeypatch.context() as patch:
        patch.setattr(checkpointing, "note_digests", killed("list", note_digests))
        replace = killed("file", Path.replace)
        patch.setattr(Path, "replace", lambda self, to: (replace if to.suffix == ".ckpt" else Path.rename)(self, to))
        with pytest.raises(KilledError):
            bench.train(bench.task(bench.solver("scgd"), passes=PASSES), tmp_path, checkpoint_steps=1)
    file, task = tmp_path / "last.ckpt", bench.task(bench.solver("scgd"), passes=PASSES)
    assert file.exists() == (time > 1 or point == "after the file")
    if file.exists():
        assert why_unusable(file, task) is None
        # And so it is once the next one has been written after it.
        bench.train(task, tmp_path, checkpoint_steps=1)
        assert why_unusable(file, task) is None
        assert len(noted_digests(file)) == 2


def test_a_checkpoint_that_is_set_aside_takes_its_checksums_along(bench, tmp_path):
    by_a_smaller_budget(bench, bench.solver("scgd"), tmp_path)
    content = (tmp_path / "last.ckpt").read_bytes()
    set_aside(tmp_path / "last.ckpt", tmp_path / "aside" / "old.ckpt")
    assert [item.name for item in tmp_path.iterdir()] == ["aside"]
    assert (tmp_path / "aside" / "old.ckpt").read_bytes() == content


def test_a_checkpoint_that_would_run_code_is_not_read(bench, tmp_path):
    by_a_smaller_budget(bench, bench.solver("scgd"), tmp_path)
    file = tmp_path / "last.ckpt"
    forged = torch.load(file, weights_only=True)
    forged["drobench"]["curve"] = interrupt_after
    torch.save(forged, file)
    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        bench.train(bench.task(bench.solver("scgd"), passes=PASSES), tmp_path)


def test_a_solver_whose_state_has_no_type_says_so_when_it_is_resumed(bench, told, tmp_path):
    class Untyped(told):
        def init(self, start, oracle, communicator):
            return super().init(start, oracle, communicator)

    def task(steps):
        return bench.task(Untyped(lambda point, step: point), steps=steps)

    bench.train(task(30), tmp_path, checkpoint_steps=1)
    with pytest.raises(DrobenchError, match=r"Untyped\.init must be annotated"):
        bench.train(task(60), tmp_path)
