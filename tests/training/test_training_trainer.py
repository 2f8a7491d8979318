"""Lightning around a solver: it changes nothing, counts every step and writes nothing unasked."""

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.oracles.build import build_oracle
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.training.settings import TrainerConfig

SOLVERS = ["gcivr", "gcivr_random", "gcivr_average", "scgd", "adam"]


def stay(point, step):
    return point


@pytest.fixture
def training_steps(monkeypatch):
    """Return the list of Lightning's counts, one for each training step that was begun."""
    from drobench.training.solver_module import SolverModule

    counts = []
    original = SolverModule.training_step

    def counted(self, batch, batch_idx):
        counts.append(self.trainer.global_step)
        return original(self, batch, batch_idx)

    monkeypatch.setattr(SolverModule, "training_step", counted)
    return counts


@pytest.mark.parametrize("name", SOLVERS)
def test_lightning_evaluation_and_clock_change_nothing_that_a_solver_does(bench, same, tmp_path, name):
    module = bench.train(bench.task(bench.solver(name), passes=12, every_passes=0.5), tmp_path)
    point, oracle = bench.alone(name, module.steps)
    assert torch.equal(module.final["last"][1], point)
    assert same(module.oracle.state_dict(), oracle)
    assert torch.equal(module.iterate.detach(), point)
    counted = {**oracle["counters"], "communication_rounds": 0, "communication_bytes": 0}
    assert module.counts() == counted


@pytest.mark.parametrize("name", SOLVERS)
def test_how_often_one_looks_changes_nothing(bench, same, tmp_path, name):
    often, seldom = (
        bench.train(bench.task(bench.solver(name), passes=20, every_passes=every), tmp_path / str(every))
        for every in (1.0, 5.0)
    )
    assert len(often.curve) > len(seldom.curve) > 2
    assert often.steps == seldom.steps
    assert torch.equal(often.final["last"][1], seldom.final["last"][1])
    assert same(often.oracle.state_dict(), seldom.oracle.state_dict())
    assert ("average" in often.final) == ("average" in seldom.final)
    if "average" in often.final:
        assert torch.equal(often.final["average"][1], seldom.final["average"][1])
    assert often.curve[-1]["objective"] == seldom.curve[-1]["objective"]


def test_lightning_counts_one_step_for_every_training_step(bench, told, training_steps, tmp_path):
    module = bench.train(bench.task(told(stay), passes=7), tmp_path)
    assert training_steps == list(range(len(training_steps)))
    assert module.trainer.global_step == len(training_steps)
    # At least one training step for each row of the curve after the first.
    assert len(training_steps) >= 7
    assert module.steps == 70


def test_nothing_is_written_where_no_checkpoint_and_no_logger_is_asked_for(bench, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bench.train(bench.task(told(stay), passes=3), tmp_path / "work")
    assert [path.name for path in tmp_path.rglob("*")] == ["work"]


def test_the_seed_of_the_oracle_decides(bench, tmp_path):
    first, again, other = (
        bench.train(bench.task(bench.solver("scgd"), steps=50, seed=seed), tmp_path).final["last"][1]
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_run_in_single_precision_stays_there(bench, tmp_path):
    problem = bench.kl_problem(dtype=torch.float32)
    start = bench.start.to(torch.float32)
    form = find_route(problem.form, (Composite,), ReformulationConfig()).form
    task = bench.task(
        bench.solver("gcivr"),
        problem=problem,
        start=start,
        build_oracles=[lambda shard: build_oracle(form, 0, start, shard)],
        passes=5,
    )
    module = bench.train(task, tmp_path, dtype="float32")
    assert module.final["last"][1].dtype == torch.float32
    assert module.curve[-1]["objective"] < module.curve[0]["objective"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize(("name", "other"), [("gpu", "cpu"), ("ddp", "ddp_cpu")])
def test_a_gpu_that_is_not_there_is_refused_with_the_trainer_that_works(name, other):
    from drobench.training.trainer import check_devices

    with pytest.raises(DrobenchError, match=rf"trainer={name} needs a CUDA GPU.*Use trainer={other},"):
        check_devices(TrainerConfig(name=name))
    check_devices(TrainerConfig(name=other))


def test_every_process_of_a_cpu_trainer_computes_on_the_cpu():
    from drobench.training.trainer import device_of

    assert device_of(TrainerConfig(name="ddp_cpu", devices=2), 1) == torch.device("cpu")
    assert device_of(TrainerConfig(name="ddp", devices=2), 1) == torch.device("cuda", 1)
