"""What robust learning problems share: a predictor, training losses by any installed loss, and scores of losses."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drobench.data.dataset import Dataset, Split
from drobench.objective.forms import NativeForm
from drobench.objective.losses import Losses
from drobench.objective.predictor import Model, build_predictor
from drobench.objective.score_losses import ScoreLoss
from drobench.objective.streamed_losses import StreamedLosses
from drobench.problem.metrics import Metric
from drobench.problem.problem import Problem
from drobench.problem.row_scores import RowScores

_TAIL = 0.05


class Supervised(Problem):
    """Learning from rows with targets; a subclass says what targets are, and what is minimised."""

    form: NativeForm
    task: ClassVar[str]
    metrics: Sequence[Metric] = (
        Metric("average_risk", unit="loss"),
        Metric("tail_loss_95", unit="loss"),
        Metric("largest_loss", unit="loss"),
        Metric("worst_case_risk", unit="loss"),
    )

    def __init__(self, dataset: Dataset, model: Model, loss: ScoreLoss) -> None:
        self.dataset = dataset
        self.loss = loss
        self.predictor = build_predictor(model, dataset.input_shape, dataset.classes)
        self.splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}

    @property
    def link(self) -> str | None:
        return self.loss.link

    @abstractmethod
    def targets_of(self, split: Split) -> Tensor:
        """Return what the loss compares scores with."""

    def training_losses(self) -> Losses:
        """Return the losses of the training rows as functions of the parameters."""
        train = self.dataset.train
        if train.streamed:
            return StreamedLosses(lambda index: self.losses_of(train.take(index)), train.rows, train.at_once)
        return self.losses_of(train)

    def losses_of(self, split: Split) -> Losses:
        """Return the losses of rows in memory as functions of the parameters."""
        return self.predictor.losses(split.features, self.targets_of(split), self.loss)

    @abstractmethod
    def truth_of(self, split: Split) -> Tensor:
        """Return what is to be predicted: classes or numbers."""

    @torch.no_grad()
    def row_scores(self, point: Tensor, split: str) -> RowScores | None:
        rows = self.splits[split]
        if rows is None or rows.rows == 0:
            return None
        return RowScores.joined([self._scored(point, rows.take(piece)) for piece in rows.pieces()])

    def _scored(self, point: Tensor, part: Split) -> RowScores:
        scores = self.predictor.scores(point, part.features)
        loss, _ = self.loss.value_and_slope(scores, self.targets_of(part))
        return RowScores(self.truth_of(part), scores, loss, part.groups, part.attributes, self.task)

    def worst_case(self, losses: Tensor) -> Tensor | None:
        """Return the robust risk of these losses, where it is a function of the losses."""
        return None

    def loss_scores(self, losses: Tensor) -> dict[str, float]:
        """Return what the losses of a split say: their mean, tail and largest, and the robust risk."""
        extra = {
            "average_risk": float(losses.mean()),
            "tail_loss_95": _mean_of_largest(losses, max(1, round(_TAIL * losses.numel()))),
            "largest_loss": float(losses.max()),
        }
        robust = self.worst_case(losses)
        return extra if robust is None else {**extra, "worst_case_risk": float(robust)}


def largest_group_mean(values: Tensor, groups: Tensor) -> float:
    """Return the largest mean over a group that has rows."""
    counts = torch.bincount(groups)
    sums = torch.bincount(groups, weights=values.double())
    return float((sums / counts)[counts > 0].max())


def _mean_of_largest(losses: Tensor, count: int) -> float:
    """Return the mean of the `count` largest; `topk` would need four times the memory of a partition."""
    return float(np.partition(losses.cpu().numpy(), -count)[-count:].mean())
