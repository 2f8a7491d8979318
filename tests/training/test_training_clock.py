"""Only what the solver does is timed."""

import time

import pytest
import torch
from pytorch_lightning.loggers.logger import DummyLogger

from drobench.training.clock import Clock
from drobench.training.run_log import RunLog
from drobench.training.settings import TrainerConfig
from drobench.training.trainer import train

CPU = torch.device("cpu")


def test_a_block_adds_its_duration_to_its_name_alone(fake_time):
    clock = Clock(CPU, fake_time)
    assert clock.seconds == {"solver": 0.0, "evaluation": 0.0}
    with clock.timing("solver"):
        fake_time.advance(2.0)
    fake_time.advance(7.0)
    with clock.timing("evaluation"):
        fake_time.advance(4.0)
    with clock.timing("solver"):
        fake_time.advance(0.5)
    assert clock.seconds == {"solver": 2.5, "evaluation": 4.0}


def test_a_block_that_fails_is_timed_all_the_same(fake_time):
    clock = Clock(CPU, fake_time)

    def fail():
        with clock.timing("solver"):
            fake_time.advance(1.5)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    assert clock.seconds["solver"] == 1.5


def test_a_name_that_nobody_knows_is_refused(fake_time):
    with pytest.raises(KeyError), Clock(CPU, fake_time).timing("coffee"):
        pass


def test_without_a_fake_the_clock_reads_real_seconds():
    clock = Clock(CPU)
    with clock.timing("solver"):
        time.sleep(0.2)
    assert 0.2 <= clock.seconds["solver"] < 20.0


def test_steps_and_the_last_recovery_are_the_only_solver_seconds(bench, told, watched, trained_by_fake_time, tmp_path):
    """A step takes 1 s, a score 64 s, a recovery 1024 s: powers of two add up without rounding."""

    def act(point, step):
        trained_by_fake_time.advance(1.0)
        return point + 0.01

    def recover(point):
        trained_by_fake_time.advance(1024.0)
        return point

    task = bench.task(
        told(act, average=True),
        problem=watched(bench.problem, lambda: trained_by_fake_time.advance(64.0)),
        recover=recover,
        steps=30,
    )
    module = bench.train(task, tmp_path)
    # Steps of 30 rows: a pass is ten steps, so there are evaluations after 0, 10, 20 and 30.
    assert [row["solver_seconds"] for row in module.curve] == [0.0, 10.0, 20.0, 30.0]
    assert module.clock.seconds["solver"] == 30.0 + 1024.0
    # Four rows of the curve, then the last iterate and the average, three splits each; the average is recovered there.
    assert module.clock.seconds["evaluation"] == (4 + 2) * 3 * 64.0 + 1024.0


def test_the_start_of_a_solver_is_on_the_clock(bench, told, trained_by_fake_time, tmp_path):
    class SlowStart(told):
        def init(self, start, oracle, communicator):
            trained_by_fake_time.advance(8.0)
            return super().init(start, oracle, communicator)

    module = bench.train(bench.task(SlowStart(lambda point, step: point), steps=10), tmp_path)
    assert [row["solver_seconds"] for row in module.curve] == [0.0, 8.0]


def test_a_sleep_in_a_step_counts_and_a_sleep_in_the_evaluator_does_not(bench, told, watched, tmp_path):
    def act(point, step):
        if step == 3:
            time.sleep(0.2)
        return point

    task = bench.task(told(act), problem=watched(bench.problem, lambda: time.sleep(0.2)), steps=10)
    module = bench.train(task, tmp_path)
    # Two rows of the curve and the last iterate, three splits each.
    assert module.clock.seconds["evaluation"] >= 9 * 0.2
    assert 0.2 <= module.clock.seconds["solver"] < 0.2 + 5 * 0.2
    assert 0.2 <= module.curve[-1]["solver_seconds"] < 0.2 + 5 * 0.2


def test_a_sleep_in_a_logger_or_in_the_recovery_on_the_way_is_not_counted(bench, told, trained_by_fake_time, tmp_path):
    """A step takes 1 s, a log or a report 64 s, a recovery 1024 s; only the last recovery is the solver's."""

    class SlowLogger(DummyLogger):
        def log_metrics(self, *arguments, **settings):
            trained_by_fake_time.advance(64.0)

    class SlowLog(RunLog):
        def open(self, continued):
            return SlowLogger()

    def act(point, step):
        trained_by_fake_time.advance(1.0)
        return point

    def recover(point):
        trained_by_fake_time.advance(1024.0)
        return point

    task = bench.task(told(act), recover=recover, steps=30)
    config = TrainerConfig(checkpoint_seconds=None, checkpoint_steps=10)
    module = train(task, config, SlowLog(), tmp_path, lambda row: trained_by_fake_time.advance(64.0))
    assert [row["solver_seconds"] for row in module.curve] == [0.0, 10.0, 20.0, 30.0]
    assert module.clock.seconds["solver"] == 30.0 + 1024.0


def test_a_gpu_has_finished_before_the_clock_is_read(fake_time):
    """What was queued takes its time while the clock waits, before the block begins and before it ends."""
    asked = []

    def synchronize(device):
        asked.append(device)
        fake_time.advance(4.0)

    device = torch.device("cuda", 1)
    clock = Clock(device, fake_time, synchronize)
    with clock.timing("solver"):
        fake_time.advance(1.0)
    assert asked == [device, device]
    # The four seconds before the block belong to what came before it.
    assert clock.seconds["solver"] == 1.0 + 4.0


def test_a_cpu_is_not_waited_for(fake_time):
    def refuse(device):
        raise AssertionError(f"{device} has nothing to wait for")

    with Clock(CPU, fake_time, refuse).timing("solver"):
        pass
