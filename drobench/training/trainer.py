"""Running a task under Lightning: on one CPU or GPU, or as one rank of several processes."""

import logging
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import ClusterEnvironment, LightningEnvironment, TorchElasticEnvironment
from pytorch_lightning.strategies import DDPStrategy

from drobench.errors import DrobenchError
from drobench.training.checkpointing import PeriodicCheckpoint
from drobench.training.run_log import RunLog
from drobench.training.settings import TrainerConfig
from drobench.training.solver_module import SolverModule
from drobench.training.task import Task

# An endless supply of batch numbers: the budget, not the data loader, ends a run. Lightning adds up the lengths of all
# ranks in 64 bits, which leaves room for millions of them.
_ENDLESS = range(2**40)
CHECKPOINT_NAME = "last.ckpt"


def check_devices(config: TrainerConfig) -> None:
    """Raise where the machine cannot do what the trainer asks for, before anything is computed."""
    if config.uses_gpu and not torch.cuda.is_available():
        other = "ddp_cpu" if config.name == "ddp" else "cpu"
        raise DrobenchError(
            f"trainer={config.name} needs a CUDA GPU and torch {torch.__version__} sees none here. "
            f"Use trainer={other}, or run `drobench doctor` to see what this machine can do."
        )
    available = torch.cuda.device_count() if config.uses_gpu else config.devices
    if config.devices > available:
        raise DrobenchError(f"trainer.devices={config.devices}, but this machine has {available} GPUs.")


def device_of(config: TrainerConfig, local_rank: int) -> torch.device:
    """Return where a process computes: the GPU with the number of its local rank, or the CPU that all share."""
    return torch.device("cuda", local_rank) if config.uses_gpu else torch.device("cpu")


def train(
    task: Task,
    config: TrainerConfig,
    log: RunLog,
    folder: Path,
    on_evaluation: Callable[[dict[str, Any]], None] | None = None,
) -> SolverModule:
    """Run the task until its budget ends it; continue from a checkpoint in `folder` if there is one.

    Returns:
        The module, which holds curve, verdict and final iterates.
    """
    module = SolverModule(task, on_evaluation)
    checkpoint = folder / CHECKPOINT_NAME
    callbacks: list[pl.Callback] = []
    if config.checkpoint_seconds is not None or config.checkpoint_steps is not None:
        callbacks.append(PeriodicCheckpoint(checkpoint, config.checkpoint_seconds, config.checkpoint_steps))
    with warnings.catch_warnings():
        _expect_warnings()
        trainer = pl.Trainer(
            accelerator="gpu" if config.uses_gpu else "cpu",
            devices=config.devices,
            num_nodes=config.nodes,
            strategy=_strategy(config),
            plugins=[_cluster(config)],
            logger=log.open(continued=checkpoint.exists()) or False,
            callbacks=callbacks,
            max_epochs=1,
            use_distributed_sampler=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
        )
        resume = str(checkpoint) if checkpoint.exists() else None
        with _interruptible():
            trainer.fit(module, train_dataloaders=_ENDLESS, ckpt_path=resume, weights_only=True)
    return module


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C be Ctrl-C: Lightning turns it into an exit and leaves the signal ignored."""
    try:
        handler = signal.getsignal(signal.SIGINT)
        yield
    except SystemExit as error:
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from None


def _strategy(config: TrainerConfig) -> Any:
    if not config.distributed:
        return "auto"
    return DDPStrategy(process_group_backend="nccl" if config.uses_gpu else "gloo")


def _cluster(config: TrainerConfig) -> ClusterEnvironment:
    """Say who started this process. Lightning would guess, and take any job of SLURM for one of its own ranks."""
    if config.distributed:
        return TorchElasticEnvironment()
    alone = LightningEnvironment()
    # It reads variables such as RANK and SLURM_PROCID when it is imported, and would not write a thing on rank 1.
    alone.set_global_rank(0)
    return alone


def _expect_warnings() -> None:
    """Silence what Lightning says about a use that is intended here."""
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for message in (
        # A machine with a GPU may run on its CPU on purpose.
        "GPU available but not used",
        # The loader is a range of numbers; there is nothing to prefetch.
        ".*does not have many workers.*",
        # Lightning 2.6 uses a part of torch that torch 2.13 deprecates.
        ".*isinstance.treespec, LeafSpec.*",
        # A resumed run finds its own folder, as it should.
        ".*Checkpoint directory .* exists and is not empty.*",
        # A checkpoint in the middle of the endless epoch is the normal case here.
        ".*resuming from a checkpoint that ended before the epoch ended.*",
    ):
        warnings.filterwarnings("ignore", message=message)
