"""What a point does to single rows, from which tables by group are made."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class RowScores:
    """The rows of a split, scored one by one.

    Attributes:
        truth: Class of each row, or the number to be predicted, `(rows,)`.
        scores: What `group_table` takes: `(rows,)`, or `(rows, classes)`.
        loss: Loss of each row, `(rows,)`.
        groups: Group of each row, `(rows,)`, where the dataset knows it.
        attributes: Numbers that groups can be cut out of, `(rows, q)`, where the dataset has some.
        task: `classification` or `regression`.
    """

    truth: Tensor
    scores: Tensor
    loss: Tensor | None = None
    groups: Tensor | None = None
    attributes: Tensor | None = None
    task: str = "classification"

    @classmethod
    def joined(cls, pieces: Sequence["RowScores"]) -> "RowScores":
        """Return consecutive pieces of a split as one."""
        if len(pieces) == 1:
            return pieces[0]
        together = {
            field.name: torch.cat([getattr(piece, field.name) for piece in pieces])
            for field in fields(cls)
            if isinstance(getattr(pieces[0], field.name), Tensor)
        }
        return cls(**together, task=pieces[0].task)
