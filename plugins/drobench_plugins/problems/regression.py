"""What the robust regression problems share: losses of residuals, and exact metrics on every split."""

import torch
from torch import Tensor

from drobench.data.dataset import Split
from drobench.problem.metrics import SplitScore
from drobench_plugins.problems.supervised import Supervised


class Regression(Supervised):
    """Prediction of a number; a subclass says what is minimised."""

    def targets_of(self, split: Split) -> Tensor:
        assert split.targets is not None  # the problem needs them, which was checked before
        return split.targets

    @torch.no_grad()
    def score(self, point: Tensor, split: str) -> SplitScore | None:
        rows = self.splits[split]
        if rows is None:
            return None
        losses, residuals, targets = torch.empty(3, rows.rows, dtype=point.dtype, device=point.device)
        groups = []
        for piece in rows.pieces():
            part = rows.take(piece)
            scores = self.predictor.scores(point, part.features)
            targets[piece] = self.targets_of(part)
            losses[piece], _ = self.loss.value_and_slope(scores, targets[piece])
            residuals[piece] = scores - targets[piece]
            groups += [] if part.groups is None else [part.groups]
        square, spread = float(residuals.square().mean()), float(targets.var(correction=0))
        extra = {
            "rmse": square**0.5,
            "mae": float(residuals.abs().mean()),
            # Where all targets are the same there is nothing to explain.
            "r2": 1.0 - square / spread if spread > 0.0 else 0.0,
            **self.loss_scores(losses),
        }
        if groups:
            extra["worst_group_rmse"] = _largest_mean(residuals.square(), torch.cat(groups)) ** 0.5
        return SplitScore(extra=extra)


def _largest_mean(values: Tensor, groups: Tensor) -> float:
    """Return the largest mean over a group that has rows."""
    counts = torch.bincount(groups)
    sums = torch.bincount(groups, weights=values.double())
    return float((sums / counts)[counts > 0].max())
