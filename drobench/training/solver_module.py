"""One Lightning module for every solver.

Optimization is manual: a `training_step` runs a chunk of the loop, then steps a rate-zero optimizer once, which is how
Lightning counts. The solver's state is a plain attribute, never a buffer, since DDP would copy rank 0's buffers over
the others; checkpoints gather one state per rank.
"""

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed

from drobench.objective.sampling import Shard
from drobench.solver.solver import state_from_dict, state_to_dict, state_type
from drobench.training.budget import Usage, Verdict
from drobench.training.evaluation import Scores
from drobench.training.loop import SolverLoop
from drobench.training.rank_states import redistribute
from drobench.training.task import Task


class SolverModule(SolverLoop, pl.LightningModule):
    """Runs a solver under Lightning: adds checkpoints, loggers and several processes to the loop."""

    def __init__(self, task: Task, on_evaluation: Callable[[dict[str, Any]], None] | None = None) -> None:
        # Not through `super()`: torch's modules do not pass it on.
        pl.LightningModule.__init__(self)
        SolverLoop.__init__(self, task, on_evaluation)
        self.automatic_optimization = False
        self.iterate = torch.nn.Parameter(task.start.clone())

    def setup(self, stage: str) -> None:
        self.connect(Shard(self.trainer.global_rank, self.trainer.world_size))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return an optimizer that never moves anything: its steps are Lightning's count."""
        return torch.optim.SGD([self.iterate], lr=0.0)

    def on_fit_start(self) -> None:
        self.begin()

    def training_step(self, batch: int, batch_idx: int) -> None:
        """Run a chunk of solver steps, then look around."""
        point = self.advance()
        with torch.no_grad():
            self.iterate.copy_(point)
        optimizer = self.optimizers()
        assert not isinstance(optimizer, list)
        optimizer.step()

    def _log(self, row: dict[str, Any]) -> None:
        if self.trainer.logger is not None:
            numbers = {key: value for key, value in row.items() if value is not None}
            self.trainer.logger.log_metrics(numbers, step=row["step"])

    def _finish(self, verdict: Verdict, usage: Usage) -> None:
        super()._finish(verdict, usage)
        self.trainer.should_stop = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Gather one state per rank: a checkpoint is written by rank 0 alone."""
        mine = {
            "state": state_to_dict(self.solver_state),
            "oracle": self.oracle.state_dict(),
            "communication": (self.communicator.rounds, self.communicator.bytes),
            "seconds": dict(self.clock.seconds),
        }
        everyone: list[Any] = [mine]
        if self.communicator.world_size > 1:
            everyone = [None] * self.communicator.world_size
            torch.distributed.all_gather_object(everyone, mine)
        checkpoint["drobench"] = {
            "ranks": everyone,
            "stage": self.stage,
            "penalty_weight": self.penalty_weight,
            "steps": self.steps,
            "evaluations_due": self.evaluations_due,
            "lost_in_a_row": self.lost_in_a_row,
            "quiet_steps": self.quiet_steps,
            "curve": self.curve,
            "best": None if self.best is None else self.best.as_dict(),
            "best_point": self.best_point,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take up this rank's part of a checkpoint, or its share of one by another number of ranks."""
        saved = checkpoint["drobench"]
        mine = redistribute(saved["ranks"], self.communicator.world_size)[self.communicator.rank]
        self.stage = saved["stage"]
        # Files of earlier versions do not say.
        self.penalty_weight = saved.get("penalty_weight")
        self.oracle = self._build_oracle()
        self.solver_state = state_from_dict(state_type(self.task.solver), mine["state"])
        self.oracle.load_state_dict(mine["oracle"])
        self.communicator.rounds, self.communicator.bytes = mine["communication"]
        self.clock.seconds = dict(mine["seconds"])
        self.steps = saved["steps"]
        self.evaluations_due = saved["evaluations_due"]
        self.lost_in_a_row = saved["lost_in_a_row"]
        # Files of earlier versions do not say.
        self.quiet_steps = saved.get("quiet_steps", 0)
        self.calls_seen = self.oracle.totals.oracle_calls
        self.curve = saved["curve"]
        self.best = None if saved["best"] is None else Scores(**saved["best"])
        self.best_point = saved["best_point"]
