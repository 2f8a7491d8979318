"""What the robust regression problems share: losses of residuals, and exact metrics on every split."""

import numpy as np
import torch
from torch import Tensor

from drobench.data.dataset import Split
from drobench.problem.metrics import Metric, SplitScore
from drobench_plugins.problems.supervised import Supervised, largest_group_mean

_QUANTILES = (0.9, 0.95, 0.99)


class Regression(Supervised):
    """Prediction of a number; a subclass says what is minimised."""

    task = "regression"
    metrics = (
        Metric("rmse", unit="target"),
        Metric("mae", unit="target"),
        Metric("r2", better="more", unit="share of variance"),
        *(Metric(f"p{100 * level:.0f}_residual", unit="target") for level in _QUANTILES),
        Metric("worst_group_rmse", unit="target"),
        *Supervised.metrics,
    )

    def targets_of(self, split: Split) -> Tensor:
        assert split.targets is not None  # the problem needs them, which was checked before
        return split.targets

    def truth_of(self, split: Split) -> Tensor:
        return self.targets_of(split)

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
            **_quantiles(residuals.abs()),
            **self.loss_scores(losses),
        }
        if groups:
            extra["worst_group_rmse"] = largest_group_mean(residuals.square(), torch.cat(groups)) ** 0.5
        return SplitScore(extra=extra)


def _quantiles(sizes: Tensor) -> dict[str, float]:
    """Return how large residuals are that few exceed; torch refuses quantiles of more than 2^24 numbers."""
    found = np.quantile(sizes.cpu().numpy(), _QUANTILES)
    return {f"p{100 * level:.0f}_residual": float(value) for level, value in zip(_QUANTILES, found, strict=True)}
