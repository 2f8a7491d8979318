"""What the robust classification problems share: a predictor, training losses, and exact metrics on every split."""

import numpy as np
import torch
from torch import Tensor

from drobench.data.dataset import Dataset, Split
from drobench.errors import SettingError
from drobench.objective.forms import NativeForm
from drobench.objective.losses import CrossEntropyLoss, LogisticLoss, Losses, ScoreLoss, SigmoidLoss
from drobench.objective.predictor import ModelConfig, build_predictor
from drobench.objective.streamed_losses import StreamedLosses
from drobench.problem.metrics import SplitScore, classification_errors
from drobench.problem.problem import Problem

LOSSES = ("logistic", "sigmoid")
_TAIL = 0.05


class Classification(Problem):
    """Classification with two or more classes; a subclass says what is minimised."""

    form: NativeForm

    def __init__(self, dataset: Dataset, model: ModelConfig, loss: str) -> None:
        if loss == "sigmoid" and dataset.classes != 2:
            raise SettingError(
                f"problem.loss=sigmoid needs two classes; dataset {dataset.name!r} has {dataset.classes}."
            )
        self.dataset = dataset
        self.binary = dataset.classes == 2
        self.loss = self._score_loss(loss)
        self.predictor = build_predictor(model, dataset.train.columns, dataset.classes)
        self.splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}

    def _score_loss(self, name: str) -> ScoreLoss:
        if name == "sigmoid":
            return SigmoidLoss()
        return LogisticLoss() if self.binary else CrossEntropyLoss()

    def training_losses(self) -> Losses:
        """Return the losses of the training rows as functions of the parameters."""
        train = self.dataset.train
        if train.streamed:
            return StreamedLosses(lambda index: self.losses_of(train.take(index)), train.rows, train.at_once)
        return self.losses_of(train)

    def losses_of(self, split: Split) -> Losses:
        """Return the losses of rows in memory as functions of the parameters."""
        return self.predictor.losses(split.features, self._targets(split), self.loss)

    def _targets(self, split: Split) -> Tensor:
        """Return signs for two classes, class numbers for more."""
        return (2 * split.labels - 1).to(split.features.dtype) if self.binary else split.labels

    def worst_case(self, losses: Tensor) -> Tensor | None:
        """Return the robust risk of these losses, where it is a function of the losses."""
        return None

    def further_scores(self, split: str, losses: Tensor, errors: Tensor) -> dict[str, float]:
        """Return metrics beyond those of every classification, from loss and 0-1 error of each row of the split."""
        return {}

    @torch.no_grad()
    def score(self, point: Tensor, split: str) -> SplitScore | None:
        rows = self.splits[split]
        if rows is None:
            return None
        losses, errors = torch.empty(2, rows.rows, dtype=point.dtype, device=point.device)
        # In double precision: single precision cannot count beyond 2^24.
        counts, by_class = torch.zeros(2, self.dataset.classes, dtype=torch.float64, device=point.device)
        for piece in rows.pieces():
            part = rows.take(piece)
            scores = self.predictor.scores(point, part.features)
            losses[piece], _ = self.loss.value_and_slope(scores, self._targets(part))
            errors[piece] = classification_errors(scores, part.labels)
            counts += torch.bincount(part.labels, minlength=self.dataset.classes)
            by_class += torch.bincount(part.labels, weights=errors[piece], minlength=self.dataset.classes)
        extra = {
            "average_risk": float(losses.mean()),
            "worst_class_error": float((by_class / counts)[counts > 0].max()),
            "tail_loss_95": _mean_of_largest(losses, max(1, round(_TAIL * losses.numel()))),
            "largest_loss": float(losses.max()),
        }
        robust = self.worst_case(losses)
        if robust is not None:
            extra["worst_case_risk"] = float(robust)
        extra.update(self.further_scores(split, losses, errors))
        return SplitScore(error=float(by_class.sum()) / rows.rows, extra=extra)


def _mean_of_largest(losses: Tensor, count: int) -> float:
    """Return the mean of the `count` largest; `topk` would need four times the memory of a partition."""
    return float(np.partition(losses.cpu().numpy(), -count)[-count:].mean())
