"""Your own table: a CSV, TSV or Parquet file with one row per sample and a column to be predicted.

Numbers and booleans become one feature each, texts one indicator per value. Labels may be numbers or texts; their
sorted distinct values become the classes 0, 1, ... With `dataset.task=regression` the column is a number to be
predicted. What is learned from data to encode them (categories, what stands for gaps, scaling) is learned from the
training rows alone, and kept with each solution.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, Dataset, DatasetConfig
from drobench.data.encoder import UNSEEN, Label, TableEncoder
from drobench.data.encoding import coded_columns
from drobench.data.fitting import FILLING, fit_columns
from drobench.data.splitting import split_of_labels
from drobench.errors import require_one_of, require_positive
from drobench.registry.entries import DatasetEntry
from drobench_plugins.datasets.table_columns import (
    answers_of,
    attributes_of,
    check_columns,
    check_kinds,
    groups_of,
    without_missing,
)
from drobench_plugins.datasets.table_file import SEPARATORS, index_columns, read_table
from drobench_plugins.datasets.table_notes import notes_on_features, notes_on_groups, notes_on_labels

if TYPE_CHECKING:
    import polars as pl


@dataclass
class TabularConfig(DatasetConfig):
    """Settings of a table."""

    path: str | None = None
    """The file, ending in .csv, .tsv or .parquet."""
    label: str | None = None
    """The column to predict."""
    drop: list[str] = field(default_factory=list)
    """Columns that are neither label nor feature, such as identifiers."""
    missing: str = "refuse"
    """What to do with missing values: `refuse`; `drop_rows`; `impute`, by the median or the most frequent value of the
    training rows; `indicator`: numbers as with `impute`, and gaps of a column that has them in training rows become a
    feature. Labels, groups and attributes are never filled in: such rows are left out."""
    task: str = "classification"
    """`classification`, or `regression`: the label is a number to be predicted."""
    group: str | None = None
    """A column whose values are groups of rows, for problems that need groups."""
    attributes: list[str] = field(default_factory=list)
    """Columns of numbers that groups are cut out of by thresholds, for problems that need attributes."""
    group_features: bool = False
    """Whether the columns of `group` and `attributes` are features too."""
    missing_words: list[str] = field(default_factory=lambda: ["", "?", "na", "n/a", "<na>", "nan", "null"])
    """Texts that stand for a missing value, whatever their case, and without spaces around them."""
    separator: str | None = None
    """What stands between the fields of a text file: `,`, `;`, `|` or a tab; null: it is found."""
    index: str = "drop"
    """What to do with columns that only number the rows: `drop` or `keep`. They are a first column without a name, and
    whole numbers from 0 to n - 1 or from 1 to n, each once, in a table of at least ten rows."""
    unseen: str = "zeros"
    """What becomes of categories that no training row has: `zeros` (none of the indicators is set) or `refuse`."""
    target_scale: float = 1.0
    """With `task=regression`: what targets are divided by, so that losses of usual widths and weights fit them."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        super().__post_init__()
        require_one_of(self, "missing", ("refuse", "drop_rows", *FILLING))
        require_one_of(self, "task", ("classification", "regression"))
        require_one_of(self, "index", ("drop", "keep"))
        require_one_of(self, "unseen", UNSEEN)
        require_positive(self, "target_scale")
        if self.separator is not None:
            require_one_of(self, "separator", SEPARATORS)

    @property
    def grouping(self) -> list[str]:
        """The columns that groups are made of."""
        return list(dict.fromkeys([*([] if self.group is None else [self.group]), *self.attributes]))

    @property
    def words(self) -> tuple[str, ...]:
        """The texts that stand for a gap, as they are compared."""
        return tuple(word.strip().lower() for word in self.missing_words)


def load_tabular_dataset(config: TabularConfig) -> Dataset:
    """Return the table as a dataset."""
    path, label = _asked(config)
    table, notes = _usable_rows(read_table(Path(path), config.words, config.separator), path, label, config)
    answers = answers_of(table[label], path, regression=config.task == "regression")
    parts = split_of_labels("tabular", answers.codes, table.height, config)
    columns, groups = _further(table, path, config)
    if answers.codes is None:
        columns["targets"] = answers.values / config.target_scale
    unused = [label] if config.group_features else [label, *config.grouping]
    raw = table.drop(unused)
    check_kinds(raw, path)
    encoder = _encoder(raw[parts[0]], tuple(answers.classes or ()), groups, config)
    _refuse_same_names(encoder, path)
    coded = coded_columns(encoder, raw)
    notes += [
        *notes_on_labels(table[label], config.task),
        *notes_on_groups(config.group, groups, columns.get("groups")),
        *notes_on_features(encoder, coded, raw[parts[0]]),
    ]
    return build_dataset(
        "tabular",
        encoder.expansion().apply(coded),
        answers.codes,
        config,
        feature_names=encoder.feature_names,
        provides=frozenset(columns) - {"targets"},
        columns=columns,
        parts=parts,
        encoder=encoder,
        notes=notes,
    )


def _asked(config: TabularConfig) -> tuple[str, str]:
    """Return file and label, once it is clear that the columns that are asked for can all be had."""
    if config.path is None or config.label is None:
        raise DataError(
            "Dataset 'tabular': a file and its label column are needed; found "
            f"path={config.path} and label={config.label}. Set `dataset.path=FILE dataset.label=COLUMN`."
        )
    if config.label in config.drop:
        raise DataError(f"Dataset 'tabular': the label {config.label!r} cannot be dropped. Change `dataset.drop=`.")
    for name in config.grouping:
        if name == config.label or name in config.drop:
            what = "the label" if name == config.label else "to be dropped"
            raise DataError(
                f"Dataset 'tabular': groups cannot be made of {name!r}, which is {what}. Change `dataset.group=` or "
                "`dataset.attributes=`. (For classes as groups there is `problem.groups=label`.)"
            )
    return config.path, config.label


def _usable_rows(
    table: "pl.DataFrame", path: str, label: str, config: TabularConfig
) -> tuple["pl.DataFrame", list[str]]:
    """Return the columns that are used, of the rows that are, and what was left out."""
    named = [label, *config.grouping]
    check_columns(table, [*named, *config.drop], path)
    table, notes = table.drop(config.drop), []
    numbering = [name for name in index_columns(table) if name not in named]
    if numbering and config.index == "drop":
        table = table.drop(numbering)
        notes.append(
            f"Left out, because they only number the rows: {', '.join(map(repr, numbering))}. `dataset.index=keep` "
            "makes features of them."
        )
    left, note = without_missing(table, named, config.missing)
    if left.height == 0:
        raise DataError(f"Dataset 'tabular': {path} has no row without missing values. Fill them in.")
    return left, notes + note


def _further(
    table: "pl.DataFrame", path: str, config: TabularConfig
) -> tuple[dict[str, NDArray[np.generic]], tuple[str, ...]]:
    """Return groups and attributes as fields of the splits, and the names of the groups."""
    columns: dict[str, NDArray[np.generic]] = {}
    names: tuple[str, ...] = ()
    if config.group is not None:
        columns["groups"], names = groups_of(table[config.group], path)
    if config.attributes:
        columns["attributes"] = attributes_of(table.select(config.attributes), path)
    return columns, names


def _encoder(
    train: "pl.DataFrame", classes: tuple[Label, ...], groups: tuple[str, ...], config: TabularConfig
) -> TableEncoder:
    """Return how raw rows become features, as the training rows have it."""
    return TableEncoder(
        fit_columns("tabular", train, config.missing),
        classes=classes,
        target=config.label,
        target_scale=config.target_scale if config.task == "regression" else 1.0,
        missing_words=config.words,
        unseen=config.unseen,
        group=config.group,
        groups=groups,
    )


def _refuse_same_names(encoder: TableEncoder, path: str) -> None:
    twice = [name for name, count in Counter(encoder.feature_names).items() if count > 1]
    if twice:
        raise DataError(
            f"Dataset 'tabular': the indicator {twice[0]!r} has the name of another column of {path}, or of its "
            "indicator. Rename one of them."
        )


def _files_of(config: TabularConfig) -> tuple[Path, ...]:
    return () if config.path is None else (Path(config.path),)


def entry() -> DatasetEntry:
    """Return the catalogue entry."""
    return DatasetEntry(
        name="tabular",
        summary="Your own CSV, TSV or Parquet file: dataset.path=FILE dataset.label=COLUMN.",
        reference="a file of the user's",
        config=TabularConfig,
        factory=load_tabular_dataset,
        # What there is depends on the file and on the settings, and is checked when it is loaded.
        provides=frozenset({"labels", "binary_labels", "targets", "groups", "attributes"}),
        on_request={
            "groups": "group=COLUMN",
            "attributes": "attributes=[COLUMN,...]",
            "labels": "task=classification",
            "targets": "task=regression",
        },
        reads=_files_of,
    )
