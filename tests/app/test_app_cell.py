"""One cell: computed once, recorded whatever happens, never at the expense of another."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from app_samples import GuestSolver, altered, catalogue_with, gradient_step, guest, records_in, with_solver

from drobench.app.cell import fail_cell, run_cell
from drobench.app.identity import identify
from drobench.app.loading import load_dataset
from drobench.app.prepare import prepare
from drobench.data.dataset import DatasetConfig
from drobench.errors import DrobenchError
from drobench.reformulation.routes import NoRouteError
from drobench.registry import DatasetEntry, NeedsNotMet, ProblemEntry
from drobench.registry.exits import AskedToEnd
from drobench.registry.process_state import current_state
from drobench.results.record import Record, Status
from drobench.results.store import ResultStore, RunBusy, StoreUnusable


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def raising(state, oracle):
    raise ValueError("this solver has had enough")


def test_the_record_is_what_was_returned(configure, catalogue, results):
    record = run_cell(configure(), catalogue)
    text = (results / record.run_id / "record.json").read_text()
    assert Record.from_json(text) == ResultStore(results).read(record.run_id)
    assert Record.from_json(text).to_json() == text
    # Numbers that are not finite are null once they are stored.
    assert Record.from_json(record.to_json()) == Record.from_json(text)


def test_the_oracle_is_counted_by_the_harness(configure, results):
    catalogue = catalogue_with(solvers=(guest("counting"),))
    record = run_cell(configure("solver=counting", "budget.steps=7", using=catalogue), catalogue)
    rows = 36
    assert record.oracle.loss_gradients == 7 * rows
    assert record.oracle.passes == 7
    assert (record.oracle.inner_values, record.oracle.constraint_checks, record.oracle.projections) == (0, 0, 0)
    assert (record.communication.rounds, record.communication.bytes) == (0, 0)


def test_the_same_run_twice_is_the_same_to_the_last_bit(configure, catalogue, results, tmp_path):
    first = run_cell(configure("solver=scgd"), catalogue)
    config = configure("solver=scgd")
    config.results = str(tmp_path / "other")
    second = run_cell(config, catalogue)
    assert second.run_id == first.run_id
    assert second.iterates.last.objective == first.iterates.last.objective
    other = run_cell(configure("solver=scgd", "seed=1"), catalogue)
    assert other.iterates.last.objective != first.iterates.last.objective


def test_a_finished_run_is_not_computed_again(configure, results):
    calls = []

    def counting(state, oracle):
        calls.append(1)
        return gradient_step(state, oracle)

    catalogue = catalogue_with(solvers=(guest("counting", counting),))
    config = configure("solver=counting", using=catalogue)
    first = run_cell(config, catalogue)
    assert len(calls) == 5
    assert run_cell(config, catalogue) == first
    assert len(calls) == 5
    assert len(records_in(results)) == 1


class TestStale:
    """A stored run whose code has changed."""

    @pytest.fixture
    def edited(self, configure, catalogue, results):
        """A run that other code has made, as its record says."""
        config = configure()
        record = run_cell(config, catalogue)
        altered(results, record.run_id, lambda content: content["code"].update(drobench="0" * 64))
        altered(results, record.run_id, lambda content: content["code_parts"].update(solver="0" * 64))
        return config, record

    def test_it_is_computed_again_with_a_word_and_kept(self, edited, catalogue, results, capsys):
        config, record = edited
        rows = []
        again = run_cell(config, catalogue, on_evaluation=rows.append)
        assert rows
        assert again.run_id == record.run_id
        assert again.code == record.code
        message = capsys.readouterr().err
        assert f"run {record.short_id} is there, but the code of solver 'gcivr' has changed since" in message
        (kept,) = (results / ".older").iterdir()
        assert json.loads((kept / "record.json").read_text())["code"] == {"drobench": "0" * 64}
        assert ResultStore(results).read(record.run_id).code == record.code

    @pytest.mark.parametrize("trust", ["patch", "any"])
    def test_it_is_taken_where_that_is_asked_for(self, edited, catalogue, results, trust):
        config, _ = edited
        config.trust = trust
        assert run_cell(config, catalogue).code == {"drobench": "0" * 64}
        assert not (results / ".older").exists()

    def test_a_failure_does_not_take_its_place(self, edited, catalogue, results):
        config, record = edited
        broken = with_solver(catalogue, "gcivr", factory=lambda config: 1 / 0)
        assert run_cell(config, broken).status is Status.FAILED
        assert ResultStore(results).read(record.run_id).iterates.last is not None

    @pytest.mark.parametrize("content", [b"{}", b"\xa2 no text"], ids=["other", "damaged"])
    def test_half_a_run_of_other_code_is_not_continued(self, configure, results, capsys, content):
        stopping = catalogue_with(solvers=(guest("patient", interrupting),))
        config = configure("solver=patient", "trainer.checkpoint_steps=1", using=stopping)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            run_cell(config, stopping)
        (note,) = (results / ".work").glob("*/code.json")
        note.with_name("last.ckpt").touch()
        note.write_bytes(content)
        repaired = catalogue_with(solvers=(guest("patient"),))
        assert run_cell(config, repaired).status is Status.BUDGET_SPENT
        assert "it was written by other code than that of this run" in capsys.readouterr().err


def test_every_evaluation_is_reported(configure, catalogue):
    rows = []
    run_cell(configure("solver=unconstrained"), catalogue, on_evaluation=rows.append)
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert all(row["objective"] > 0 for row in rows)


def test_a_solver_that_raises_is_a_failed_run_and_is_tried_again(configure, results, capsys):
    broken = catalogue_with(solvers=(guest("moody", raising),))
    config = configure("solver=moody", using=broken)
    record = run_cell(config, broken)
    assert record.status is Status.FAILED
    assert record.reason == "ValueError: this solver has had enough"
    assert "this solver has had enough" in capsys.readouterr().err
    assert record.iterates.last is None
    assert record.optimum is None
    assert (results / record.run_id / "record.json").is_file()
    assert not ResultStore(results).finished(record.run_id)
    # Another run is unharmed, and the repaired solver gets its chance under the same id.
    repaired = catalogue_with(solvers=(guest("moody"),))
    assert run_cell(configure("solver=scgd"), repaired).status is Status.BUDGET_SPENT
    second = run_cell(config, repaired)
    assert (second.run_id, second.status) == (record.run_id, Status.BUDGET_SPENT)
    assert len(records_in(results)) == 2


def test_a_solver_that_raises_later_on_is_a_failed_run_too(configure, results):
    def late(state, oracle):
        return raising(state, oracle) if state.steps == 3 else gradient_step(state, oracle)

    catalogue = catalogue_with(solvers=(guest("late", late),))
    assert run_cell(configure("solver=late", using=catalogue), catalogue).status is Status.FAILED


def test_a_factory_that_raises_is_a_failed_run(configure, results):
    def build(config):
        raise TypeError("cannot be built")

    catalogue = catalogue_with(solvers=(guest("unbuilt", factory=build),))
    record = run_cell(configure("solver=unbuilt", using=catalogue), catalogue)
    assert (record.status, record.reason) == (Status.FAILED, "TypeError: cannot be built")


def test_a_point_that_is_no_number_ends_the_run(configure, results):
    def explode(state, oracle):
        return state.point + float("nan")

    catalogue = catalogue_with(solvers=(guest("exploding", explode),))
    record = run_cell(configure("solver=exploding", using=catalogue), catalogue)
    assert record.status is Status.NON_FINITE
    text = (results / record.run_id / "record.json").read_text()
    assert json.loads(text, parse_constant=refuse)["iterates"]["last"]["objective"] is None


def test_a_run_far_above_its_start_has_diverged(configure):
    catalogue = catalogue_with(solvers=(guest("leaving", lambda state, oracle: state.point + 1e4),))
    assert run_cell(configure("solver=leaving", using=catalogue), catalogue).status is Status.DIVERGED


def test_a_target_ends_a_run_early(configure, catalogue):
    record = run_cell(configure("solver=gcivr", "budget.steps=100000", "budget.target_gap=0.2"), catalogue)
    assert record.status is Status.CONVERGED
    assert "target_gap" in record.reason
    assert record.iterates.last.step < 100000


def group_problem(catalogue):
    original = catalogue.problem("kl_classification").entry
    return ProblemEntry(
        name="grouped",
        summary="Needs groups.",
        config=original.config,
        factory=original.factory,
        needs=frozenset({"binary_labels", "groups"}),
    )


def test_a_problem_that_needs_what_the_data_lack_is_refused(configure, catalogue, results):
    guests = catalogue_with(problems=(group_problem(catalogue),))
    config = configure("problem=grouped", "problem.l2=0.1", using=guests)
    with pytest.raises(NeedsNotMet, match=r"'grouped' needs .*groups.*'synthetic' does not provide groups"):
        run_cell(config, guests)
    assert not records_in(results)


def test_a_kept_refusal_is_a_skipped_record(configure, catalogue, results):
    guests = catalogue_with(problems=(group_problem(catalogue),))
    config = configure("problem=grouped", "problem.l2=0.1", using=guests)
    record = run_cell(config, guests, keep_refusals=True)
    assert record.status is Status.SKIPPED
    assert "groups" in record.reason
    assert (record.dataset.sha256, record.dataset.rows) == (None, None)
    assert ResultStore(results).read(record.run_id).status is Status.SKIPPED
    assert run_cell(config, guests, keep_refusals=True).run_id == record.run_id


class Unreachable:
    """A form that no reformulation leads to."""


def test_a_solver_without_a_way_to_its_form_is_refused(configure, results):
    catalogue = catalogue_with(solvers=(guest("foreign", accepts=(Unreachable,)),))
    config = configure("solver=foreign", using=catalogue)
    with pytest.raises(NoRouteError, match="Unreachable"):
        run_cell(config, catalogue)
    assert not records_in(results)
    record = run_cell(config, catalogue, keep_refusals=True)
    assert record.status is Status.SKIPPED
    assert "Unreachable" in record.reason


def test_a_trainer_that_this_machine_cannot_serve_is_refused(configure, catalogue, results):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(DrobenchError, match=r"trainer=ddp needs a CUDA GPU.*trainer=ddp_cpu"):
        run_cell(configure("trainer=ddp"), catalogue)
    assert not records_in(results)


def test_a_run_that_takes_too_long_is_given_up(configure, catalogue, results):
    def dream(state, oracle):
        while True:
            time.sleep(0.01)

    guests = catalogue_with(solvers=(guest("dreaming", dream),))
    # The optimum is found beforehand, so that the time is the solver's.
    run_cell(configure("solver=scgd"), catalogue)
    began = time.monotonic()
    record = run_cell(configure("solver=dreaming", "timeout=1.5", using=guests), guests)
    assert time.monotonic() - began < 30
    assert (record.status, record.reason) == (Status.FAILED, "timed out after 1.5 s")
    assert signal.getitimer(signal.ITIMER_REAL)[1] == 0


def test_the_timeout_outlives_a_solver_that_swallows_exceptions(configure, catalogue, results):
    def stubborn(state, oracle):
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                continue

    guests = catalogue_with(solvers=(guest("stubborn", stubborn),))
    record = run_cell(configure("solver=stubborn", "timeout=1", using=guests), guests)
    assert record.reason == "timed out after 1 s"


def interrupting(state, oracle):
    raise KeyboardInterrupt


def test_an_interrupted_run_leaves_no_record(configure, results):
    catalogue = catalogue_with(solvers=(guest("interrupted", interrupting),))
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        run_cell(configure("solver=interrupted", using=catalogue), catalogue)
    assert not records_in(results)


def test_an_interrupted_run_says_so_and_leaves_ctrl_c_working(configure, results):
    before = signal.getsignal(signal.SIGINT)
    catalogue = catalogue_with(solvers=(guest("interrupted", interrupting),))
    # A `SystemExit` would end a notebook's kernel or a script that means to go on.
    with pytest.raises(KeyboardInterrupt):
        run_cell(configure("solver=interrupted", using=catalogue), catalogue)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupted_run_goes_on_afterwards(configure, results):
    broken = catalogue_with(solvers=(guest("patient", interrupting),))
    config = configure("solver=patient", using=broken)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        run_cell(config, broken)
    repaired = catalogue_with(solvers=(guest("patient"),))
    assert run_cell(config, repaired).status is Status.BUDGET_SPENT


HOLDER = """
import sys
from pathlib import Path
from drobench.results.store import ResultStore

with ResultStore(Path(sys.argv[1])).lock(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
def test_a_run_that_another_process_computes_is_busy(configure, catalogue, results):
    config = configure()
    run_id = identify(config, catalogue, load_dataset(config, catalogue).sha256)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(results), run_id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunBusy, match=run_id[:12]):
            run_cell(config, catalogue)
        assert not records_in(results)
        other = run_cell(configure("seed=1"), catalogue)
        assert other.status is Status.BUDGET_SPENT
        holder.stdin.close()
    assert holder.returncode == 0
    assert run_cell(config, catalogue).run_id == run_id


def test_a_network_runs_on_real_data(configure, catalogue, results):
    words = ("dataset=breast_cancer", "model=mlp", "model.hidden=[5]", "budget.passes=3")
    record = run_cell(configure(*words, "solver=gcivr", "solver.step_size=0.02", base=()), catalogue)
    assert record.status is Status.BUDGET_SPENT
    assert record.optimum is None
    assert "not convex" in record.optimum_reason
    assert record.iterates.last.gap is None
    assert ResultStore(results).solution(record.run_id)["last"].shape == (30 * 5 + 5 + 5 + 1,)
    curve = ResultStore(results).curve(record.run_id)
    assert curve["objective"][-1] < curve["objective"][0]


def test_a_results_folder_that_cannot_be_is_named(configure, catalogue, tmp_path):
    (tmp_path / "file").write_text("a regular file")
    config = configure()
    config.results = str(tmp_path / "file" / "results")
    with pytest.raises(StoreUnusable, match="DROBENCH_RESULTS") as refusal:
        run_cell(config, catalogue)
    assert str(tmp_path / "file" / "results") in str(refusal.value)


def test_a_cell_can_be_failed_from_outside_but_not_unmade(configure, catalogue, results):
    config = configure()
    failed = fail_cell(prepare(config, catalogue), "its process died")
    assert (failed.status, failed.reason) == (Status.FAILED, "its process died")
    assert failed.dataset.rows == 60
    done = run_cell(config, catalogue)
    assert done.run_id == failed.run_id
    assert fail_cell(prepare(config, catalogue), "too late") == done


def test_nothing_but_results_is_left_behind(configure, catalogue, results, tmp_path):
    record = run_cell(configure(), catalogue)
    assert [item.name for item in tmp_path.iterdir()] == ["results"]
    assert sorted(file.name for file in (results / record.run_id).iterdir()) == [
        "config.yaml", "curve.parquet", "record.json", "solution.safetensors",
    ]  # fmt: skip
    assert not list((results / ".work").iterdir())
    assert not list((results / ".writing").iterdir())


def test_threads_are_put_back_after_a_run(configure, catalogue):
    before = torch.get_num_threads()
    seen = []

    def watching(state, oracle):
        seen.append(torch.get_num_threads())
        return gradient_step(state, oracle)

    guests = catalogue_with(solvers=(guest("watching", watching),))
    run_cell(configure("solver=watching", "trainer.threads=2", using=guests), guests)
    assert set(seen) == {2}
    assert torch.get_num_threads() == before


def test_a_killed_run_goes_on_from_its_checkpoint(configure, results):
    def stop_at_four(state, oracle):
        if state.steps == 4:
            raise KeyboardInterrupt
        return gradient_step(state, oracle)

    words = ("solver=walking", "budget.steps=8", "trainer.checkpoint_steps=1", "trainer.checkpoint_seconds=null")
    broken = catalogue_with(solvers=(guest("walking", stop_at_four),))
    config = configure(*words, using=broken)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        run_cell(config, broken)
    steps = []

    def counting(state, oracle):
        steps.append(state.steps)
        return gradient_step(state, oracle)

    repaired = catalogue_with(solvers=(guest("walking", counting),))
    record = run_cell(config, repaired)
    assert steps[0] > 0
    assert steps[-1] == 7
    straight = configure(*words, using=repaired)
    straight.results = str(results.parent / "straight")
    assert run_cell(straight, repaired).iterates.last.objective == record.iterates.last.objective


@pytest.mark.parametrize("name", ["SystemExit: 0", "os._exit: 0"])
@pytest.mark.parametrize("place", ["step", "solution", "factory", "problem"])
def test_a_plugin_that_tries_to_end_the_program_is_a_failed_run(configure, catalogue, results, name, place):
    def call(*_):
        # By its name, as a plugin would: that is where `os._exit` is replaced, and `sys.exit` by whoever logs.
        sys.exit(0) if name.startswith("SystemExit") else os._exit(0)

    class Ending(GuestSolver):
        pass

    if place in ("step", "solution"):
        setattr(Ending, place, call)
    factory = call if place == "factory" else lambda config: Ending(gradient_step)
    original = catalogue.problem("kl_classification").entry
    problem = dataclasses.replace(original, name="ending", factory=call if place == "problem" else original.factory)
    guests = catalogue_with(solvers=(guest("ending", factory=factory),), problems=(problem,))
    record = run_cell(configure("solver=ending", "problem=ending", "problem.l2=0.1", using=guests), guests)
    assert (record.status, record.reason) == (Status.FAILED, f"`{__name__}` tried to end the program ({name})")
    assert ResultStore(results).read(record.run_id) == record


class PanicError(BaseException):
    pass


def test_what_is_raised_outside_of_exceptions_is_a_failed_run_too(configure, results):
    def panic(state, oracle):
        raise PanicError("in a foreign language")

    catalogue = catalogue_with(solvers=(guest("panicking", panic),))
    record = run_cell(configure("solver=panicking", using=catalogue), catalogue)
    assert (record.status, record.reason) == (Status.FAILED, "PanicError: in a foreign language")


def test_a_process_that_is_asked_to_end_has_nothing_to_record(configure, results):
    def end(state, oracle):
        raise AskedToEnd

    catalogue = catalogue_with(solvers=(guest("ending", end),))
    with pytest.raises(AskedToEnd):
        run_cell(configure("solver=ending", using=catalogue), catalogue)
    assert not records_in(results)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_disk_that_takes_nothing_more_is_not_the_solvers_failure(configure, results, code, wrapped):
    def write(state, oracle):
        try:
            raise OSError(code, os.strerror(code))
        except OSError as error:
            if wrapped:
                raise RuntimeError("the file could not be written") from error
            raise

    catalogue = catalogue_with(solvers=(guest("writing", write),))
    with pytest.raises(StoreUnusable, match="nothing can be written any more"):
        run_cell(configure("solver=writing", using=catalogue), catalogue)
    assert not records_in(results)


def test_a_run_leaves_the_process_as_it_found_it(configure, results, monkeypatch):
    monkeypatch.chdir(results.parent)
    before = current_state()

    def change(state, oracle):
        os.chdir("/")
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("cpu")
        return gradient_step(state, oracle)

    catalogue = catalogue_with(solvers=(guest("changing", change),))
    config = configure("solver=changing", using=catalogue)
    config.results = results.name
    record = run_cell(config, catalogue)
    assert record.status is Status.BUDGET_SPENT
    assert current_state() == before
    # And its record is where it was to be.
    assert [folder.name for folder in records_in(results)] == [record.run_id]


def test_a_dataset_that_raises_anything_is_a_failed_run_that_names_it(configure, results):
    def exhaust(config):
        raise MemoryError("cannot allocate 10**12 bytes")

    entry = DatasetEntry(
        name="huge", summary="Too large.", config=DatasetConfig, factory=exhaust,
        provides=frozenset({"labels", "binary_labels"}),
    )  # fmt: skip
    guests = catalogue_with(datasets=(entry,))
    record = run_cell(configure("dataset=huge", using=guests, base=()), guests)
    expected = "The dataset 'huge' could not be loaded: MemoryError: cannot allocate 10**12 bytes"
    assert (record.status, record.reason, record.dataset.sha256) == (Status.FAILED, expected, None)


def test_a_stored_configuration_does_not_say_where_it_was_stored(configure, catalogue, results, tmp_path):
    record = run_cell(configure(), catalogue)
    assert str(tmp_path) not in ResultStore(results).config(record.run_id)


def walking(configure, act):
    words = ("solver=walking", "budget.steps=8", "trainer.checkpoint_steps=1", "trainer.checkpoint_seconds=null")
    catalogue = catalogue_with(solvers=(guest("walking", act),))
    return configure(*words, using=catalogue), catalogue


def failing_at(step, error, begun):
    def act(state, oracle):
        begun.append(state.steps)
        if state.steps == step:
            raise error
        return gradient_step(state, oracle)

    return act


def test_a_run_that_fails_right_after_it_was_continued_starts_over_next_time(configure, results, capsys):
    begun = []
    with pytest.raises(KeyboardInterrupt):
        run_cell(*walking(configure, failing_at(4, KeyboardInterrupt(), begun)))
    (checkpoint,) = results.glob(".work/*/last.ckpt")
    first = begun[:]
    begun.clear()
    # It fails before it has written another one.
    assert run_cell(*walking(configure, failing_at(4, ValueError("bad"), begun))).status is Status.FAILED
    assert (first[0], begun) == (0, [4])
    assert not checkpoint.exists()
    assert len(list(results.glob(".damaged/*.ckpt"))) == 1
    assert "the next attempt starts over" in capsys.readouterr().err
    begun.clear()
    assert run_cell(*walking(configure, failing_at(None, None, begun))).status is Status.BUDGET_SPENT
    assert begun == list(range(8))


def test_a_run_that_fails_later_keeps_the_checkpoint_that_it_has_written(configure, results):
    begun = []
    with pytest.raises(KeyboardInterrupt):
        run_cell(*walking(configure, failing_at(4, KeyboardInterrupt(), begun)))
    run_cell(*walking(configure, failing_at(6, ValueError("bad"), begun)))
    begun.clear()
    run_cell(*walking(configure, failing_at(None, None, begun)))
    assert begun == [6, 7]


def test_a_run_that_was_interrupted_again_keeps_its_checkpoint(configure, results):
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_cell(*walking(configure, failing_at(4, KeyboardInterrupt(), [])))
    assert len(list(results.glob(".work/*/last.ckpt"))) == 1
