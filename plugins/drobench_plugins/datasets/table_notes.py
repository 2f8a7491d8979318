"""What is worth knowing of a user's table before its results are believed; each note says what can be done."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drobench.data.encoder import UNKNOWN_CODE, TableEncoder

if TYPE_CHECKING:
    import polars as pl

# So many different numbers are a quantity more often than classes.
_MANY_NUMBERS = 20
_SHOWN = 10


def notes_on_labels(label: "pl.Series", task: str) -> list[str]:
    """Return a note where numbers are taken as classes and may be a quantity."""
    values = label.n_unique()
    if task != "classification" or not label.dtype.is_numeric() or values <= _MANY_NUMBERS:
        return []
    return [
        f"The {values} different numbers of {label.name!r} are taken as classes; if they are a quantity, set "
        "`dataset.task=regression`."
    ]


def notes_on_groups(column: str | None, names: tuple[str, ...], groups: "NDArray[np.generic] | None") -> list[str]:
    """Return a note of the groups, with their numbers, names and sizes."""
    if groups is None:
        return []
    sizes = np.bincount(groups.astype(np.int64), minlength=len(names))
    told = [f"{number} {name} ({size} rows)" for number, (name, size) in enumerate(zip(names, sizes, strict=True))]
    return [f"Groups by {column!r}: {_listed(told)}."]


def notes_on_features(encoder: TableEncoder, coded: NDArray[np.float64], train: "pl.DataFrame") -> list[str]:
    """Return notes on columns that say nothing, and on categories that no training row has.

    Args:
        encoder: Of the table.
        coded: All rows as it codes them.
        train: The raw training rows.
    """
    notes = []
    constant = [column.name for column in train.iter_columns() if column.n_unique() == 1]
    if constant:
        notes.append(
            f"The same value in every training row, so nothing can be learned of them: {_listed(map(repr, constant))}. "
            "Drop them with `dataset.drop=`."
        )
    unseen = (coded == UNKNOWN_CODE).sum(axis=0)
    strange = [
        f"{column.name!r} ({count} rows)"
        for column, count in zip(encoder.columns, unseen, strict=True)
        if column.kind == "category" and count
    ]
    if strange:
        notes.append(f"Categories that no training row has, and of which no indicator is set: {_listed(strange)}.")
    return notes


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
