"""What a model does to each group: counts, errors, rates and losses, one row per group.

Errors and rates are exact as in `drobench.problem.metrics`: a score of 0 is half of either class, and a score that is
no number is wrong whatever the label.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.errors import SettingError
from drobench.problem.metrics import classification_errors

TASKS = ("classification", "regression")


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """What a model does to the rows of one group; `None` where a number does not exist.

    Attributes:
        group: Number of the group.
        count: Rows in it.
        share: Of all rows.
        error: Classification: mean 0-1 error.
        selection_rate: Two classes: share of the rows that class 1 is predicted for.
        true_positive_rate: Two classes: the same among rows of class 1; `None` if the group has none.
        false_positive_rate: Two classes: the same among rows of class 0; `None` if the group has none.
        rmse: Regression: root of the mean squared residual.
        mae: Regression: mean absolute residual.
        mean_residual: Regression: mean of prediction less target; above 0 the model promises too much.
        mean_loss: Mean of the losses, where they were given.
    """

    group: int
    count: int
    share: float
    error: float | None = None
    selection_rate: float | None = None
    true_positive_rate: float | None = None
    false_positive_rate: float | None = None
    rmse: float | None = None
    mae: float | None = None
    mean_residual: float | None = None
    mean_loss: float | None = None


def group_table(
    groups: Tensor,
    labels_or_targets: Tensor,
    scores: Tensor,
    loss: Tensor | None = None,
    task: str = "classification",
) -> list[GroupRow]:
    """Return one row per group that occurs, in the order of their numbers.

    Args:
        groups: Whole number of the group of each row, `(rows,)`; numbers may be missing or negative.
        labels_or_targets: Class of each row, from 0, or the number to be predicted, `(rows,)`.
        scores: One per row, `(rows,)`: a prediction of the target, or what is above 0 for class 1; or one per class,
            `(rows, classes)`, the largest of which is predicted.
        loss: Loss of each row, `(rows,)`.
        task: `classification` or `regression`.

    Raises:
        SettingError: If the task is unknown, or the shapes do not fit.
    """
    _check(groups, labels_or_targets, scores, loss, task)
    numbers, member, counts = groups.unique(return_inverse=True, return_counts=True)
    measured = _Means(member, counts.to(torch.float64))
    if task == "regression":
        columns = _regression(measured, labels_or_targets, scores)
    else:
        columns = _classification(measured, labels_or_targets, scores)
    if loss is not None:
        columns["mean_loss"] = measured.of(loss)
    columns["share"] = counts.to(torch.float64) / max(groups.shape[0], 1)
    listed = {name: _listed(values) for name, values in columns.items()}
    return [
        GroupRow(group=group, count=count, **dict(zip(listed, values, strict=True)))
        for group, count, *values in zip(numbers.tolist(), counts.tolist(), *listed.values(), strict=True)
    ]


@dataclass(frozen=True)
class _Means:
    """Means over groups, in double precision: single precision cannot count beyond 2^24."""

    member: Tensor
    counts: Tensor

    def of(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the mean of each group, NaN where all its weights are 0."""
        values = values.to(torch.float64)
        if weights is None:
            return self._sums(values) / self.counts
        return self._sums(values * weights) / self._sums(weights)

    def _sums(self, values: Tensor) -> Tensor:
        return torch.zeros_like(self.counts).index_add_(0, self.member, values)


def _classification(means: _Means, labels: Tensor, scores: Tensor) -> dict[str, Tensor]:
    errors = classification_errors(scores, labels).to(torch.float64)
    if scores.dim() > 1:
        return {"error": means.of(errors)}
    positive = (labels == 1).to(torch.float64)
    selected = torch.where(labels == 1, 1.0 - errors, errors)
    return {
        "error": means.of(errors),
        "selection_rate": means.of(selected),
        "true_positive_rate": means.of(selected, positive),
        "false_positive_rate": means.of(selected, 1.0 - positive),
    }


def _regression(means: _Means, targets: Tensor, scores: Tensor) -> dict[str, Tensor]:
    residuals = scores.to(torch.float64) - targets.to(torch.float64)
    return {
        "rmse": means.of(residuals.square()).sqrt(),
        "mae": means.of(residuals.abs()),
        "mean_residual": means.of(residuals),
    }


def _listed(values: Tensor) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _check(groups: Tensor, labels: Tensor, scores: Tensor, loss: Tensor | None, task: str) -> None:
    if task not in TASKS:
        raise SettingError(f"group_table: `task` must be one of {', '.join(TASKS)}; found {task!r}.")
    if groups.dim() != 1 or groups.is_floating_point():
        raise SettingError(
            f"group_table: `groups` must hold one whole number per row; found shape {tuple(groups.shape)} of "
            f"{groups.dtype}."
        )
    given = {"labels_or_targets": labels, "scores": scores} | ({} if loss is None else {"loss": loss})
    for name, values in given.items():
        per_class = name == "scores" and task == "classification" and values.dim() == 2
        if values.shape[:1] != groups.shape or not (values.dim() == 1 or per_class):
            raise SettingError(
                f"group_table: `{name}` must have one entry for each of the {groups.shape[0]} rows; found shape "
                f"{tuple(values.shape)}."
            )
