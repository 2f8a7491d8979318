"""Which groups a table can be made of: those of the dataset, classes, and halves by each attribute."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from drobench.problem.row_scores import RowScores


@dataclass(frozen=True, eq=False)
class Grouping:
    """One way to cut rows into groups.

    Attributes:
        name: `group`, `class`, or `attribute 0` and so on.
        member: Number of the group of each row, `(rows,)`.
        labels: What a group is called, where its number alone would not say it.
    """

    name: str
    member: Tensor
    labels: Mapping[int, str] = field(default_factory=dict)


def groupings(rows: RowScores, training: RowScores) -> list[Grouping]:
    """Return the ways to cut these rows; attributes are cut at thresholds of the training rows."""
    found = [] if rows.groups is None else [Grouping("group", rows.groups)]
    if rows.task == "classification":
        found.append(Grouping("class", rows.truth))
    return [*found, *_halves(rows, training)]


def _halves(rows: RowScores, training: RowScores) -> Iterator[Grouping]:
    """Cut by each attribute at its median on the training rows, or where that is the largest value, below it."""
    if rows.attributes is None or training.attributes is None:
        return
    for column, values in enumerate(training.attributes.to(torch.float64).T):
        distinct = values.unique()
        if distinct.numel() < 2:
            continue
        threshold = min(float(values.median()), float(distinct[-2]))
        above = (rows.attributes[:, column].to(torch.float64) > threshold).long()
        labels = {0: f"at most {threshold:.4g}", 1: f"above {threshold:.4g}"}
        yield Grouping(f"attribute {column}", above, labels)
