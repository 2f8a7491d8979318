"""What the robust classification problems share: losses of margins or class scores, and exact metrics."""

from collections.abc import Sequence

import torch
from torch import Tensor

from drobench.data.dataset import Dataset, Split
from drobench.errors import SettingError
from drobench.objective.class_weights import ClassWeightedLoss, balanced_weights
from drobench.objective.losses import CrossEntropyLoss, LogisticLoss
from drobench.objective.predictor import Model
from drobench.objective.score_losses import ScoreLoss
from drobench.problem.metrics import Metric, SplitScore, classification_errors
from drobench_plugins.problems.supervised import Supervised, largest_group_mean


class Classification(Supervised):
    """Classification with two or more classes; a subclass says what is minimised."""

    task = "classification"
    metrics: Sequence[Metric] = (
        *Supervised.metrics,
        Metric("worst_class_error", unit="share"),
        Metric("worst_group_error", unit="share"),
    )

    def __init__(
        self,
        dataset: Dataset,
        model: Model,
        loss: ScoreLoss,
        class_weights: Sequence[float] = (),
        balance_classes: bool = False,
    ) -> None:
        self.binary = dataset.classes == 2
        if isinstance(loss, LogisticLoss) and not self.binary:
            # The same loss for more classes.
            loss = CrossEntropyLoss()
        if loss.scores_each_class == self.binary:
            wanted = "more than two classes" if self.binary else "two classes"
            raise SettingError(
                f"problem.loss: {type(loss).__name__} needs {wanted}; dataset {dataset.name!r} has {dataset.classes}. "
                "Change `problem.loss=`."
            )
        weights = balanced_weights(_class_counts(dataset)) if balance_classes else class_weights
        if weights and len(weights) != dataset.classes:
            raise SettingError(
                f"problem.class_weights must have one weight for each of the {dataset.classes} classes of dataset "
                f"{dataset.name!r}, in the order of their labels; found {len(weights)}. Change "
                "`problem.class_weights=`."
            )
        super().__init__(dataset, model, ClassWeightedLoss(loss, weights) if weights else loss)

    def targets_of(self, split: Split) -> Tensor:
        """Return signs for two classes, class numbers for more."""
        return (2 * split.labels - 1).to(split.features.dtype) if self.binary else split.labels

    def truth_of(self, split: Split) -> Tensor:
        return split.labels

    def further_scores(self, split: str, losses: Tensor, errors: Tensor, groups: Tensor | None) -> dict[str, float]:
        """Return metrics beyond those of every classification.

        Args:
            split: Its name.
            losses: Of each row.
            errors: 0-1 loss of each row.
            groups: Of each row, where the dataset has groups.
        """
        return {} if groups is None else {"worst_group_error": largest_group_mean(errors, groups)}

    @torch.no_grad()
    def score(self, point: Tensor, split: str) -> SplitScore | None:
        rows = self.splits[split]
        if rows is None:
            return None
        losses, errors = torch.empty(2, rows.rows, dtype=point.dtype, device=point.device)
        groups = []
        # In double precision: single precision cannot count beyond 2^24.
        counts, by_class = torch.zeros(2, self.dataset.classes, dtype=torch.float64, device=point.device)
        for piece in rows.pieces():
            part = rows.take(piece)
            scores = self.predictor.scores(point, part.features)
            losses[piece], _ = self.loss.value_and_slope(scores, self.targets_of(part))
            errors[piece] = classification_errors(scores, part.labels)
            counts += torch.bincount(part.labels, minlength=self.dataset.classes)
            groups += [] if part.groups is None else [part.groups]
            by_class += torch.bincount(part.labels, weights=errors[piece], minlength=self.dataset.classes)
        extra = {
            **self.loss_scores(losses),
            "worst_class_error": float((by_class / counts)[counts > 0].max()),
            **self.further_scores(split, losses, errors, torch.cat(groups) if groups else None),
        }
        return SplitScore(error=float(by_class.sum()) / rows.rows, extra=extra)


def _class_counts(dataset: Dataset) -> Tensor:
    """Return how many training rows each class has."""
    train = dataset.train
    pieces = [torch.bincount(train.take(piece).labels, minlength=dataset.classes) for piece in train.pieces()]
    return torch.stack(pieces).sum(dim=0)
