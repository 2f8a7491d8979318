"""Adult, also called Census Income: who of 48,842 people earned more than 50,000 dollars in 1994.

Both files of the publisher, first `adult.data`, then `adult.test`, make one table, whose rows are numbered anew and
split by `dataset.split`. Categories and buckets of five numeric columns become 120 indicators. Groups are the races:
0 White, 1 Black, 2 all others. The indicators of White and Black are left out, those of the three smaller races stay.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drobench.data.build import build_dataset
from drobench.data.cache import RemoteFile, require
from drobench.data.dataset import DataError, Dataset, DatasetConfig
from drobench.data.encoder import number_encoder
from drobench.registry.entries import DatasetEntry
from drobench_plugins.datasets.separated_text import check_columns, numbers, read_fields

if TYPE_CHECKING:
    import polars as pl

NAME = "adult"
COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
)
# Written down, and not read off the data, so that every table, however small, has the same 120 features. `?` stands
# for a value that is not known.
_CATEGORIES = {
    "workclass": """
        ? Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay
    """,
    "education": """
        10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters Preschool
        Prof-school Some-college
    """,
    "marital_status": """
        Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated Widowed
    """,
    "occupation": """
        ? Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners Machine-op-inspct
        Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support Transport-moving
    """,
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "native_country": """
        ? Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France Germany Greece
        Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan Laos Mexico
        Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand
        Trinadad&Tobago United-States Vietnam Yugoslavia
    """,
}
CATEGORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {column: tuple(values.split()) for column, values in _CATEGORIES.items()}
)
# A bucket reaches from one edge, not included, to the next, included.
BUCKETS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "age": (17, 28, 37, 48, 90),
        "capital_gain": (-1, 1, 4000, 10_000, 100_000),
        "capital_loss": (-1, 1, 1800, 1950, 4500),
        "hours_per_week": (0, 39, 41, 50, 100),
        "education_num": (0, 8, 9, 11, 16),
    }
)
INCOMES = ("<=50K", ">50K")
# Whoever belongs to neither is in the group after the last.
_GROUP_RACES = ("White", "Black")
_LEFT_OUT = ("race_White", "race_Black")

_ADDRESS = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
_ARCHIVE = "https://archive.ics.uci.edu/static/public/2/adult.zip"
FILES = (
    RemoteFile(
        "adult.data",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        3_974_305,
        (_ADDRESS + "adult.data", _ARCHIVE),
    ),
    RemoteFile(
        "adult.test",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        2_003_153,
        (_ADDRESS + "adult.test", _ARCHIVE),
    ),
)


@dataclass
class AdultConfig(DatasetConfig):
    """Settings of `adult`.

    Attributes:
        split: A fifth for training, a fifth for validation, the rest for the test.
        standardize: Off by default: every feature is an indicator.
        open_buckets: Leave the youngest, aged 17, without a bucket of age, as published programs do whose first bucket
            is open on its left.
    """

    split: list[float] = field(default_factory=lambda: [0.2, 0.2, 0.6])
    standardize: bool = False
    open_buckets: bool = False


def load_adult(config: AdultConfig) -> Dataset:
    """Load the real data from the cache."""
    return adult_dataset(NAME, read_table(require(NAME, FILES, twin="adult_twin")), config)


def read_table(paths: Sequence[Path]) -> "pl.DataFrame":
    """Return the rows of the publisher's files, one file after the other, as text.

    Raises:
        DataError: A file is not in the publisher's format.
    """
    import polars as pl  # noqa: PLC0415

    tables = [read_fields(NAME, path, COLUMNS, ", ", comment="|") for path in paths]
    # The labels of the test file end in a full stop.
    return pl.concat(tables).with_columns(pl.col("income").str.strip_suffix("."))


def adult_dataset(name: str, table: "pl.DataFrame", config: AdultConfig, *, twin: bool = False) -> Dataset:
    """Turn a raw table, real or synthetic, into a dataset."""
    features, feature_names, labels, groups = encode(table, open_buckets=config.open_buckets)
    return build_dataset(
        name,
        features,
        labels,
        config,
        feature_names=feature_names,
        provides=frozenset({"groups"}),
        twin=twin,
        columns={"groups": groups},
        encoder=number_encoder(
            feature_names, classes=INCOMES, target="income", group="race", groups=(*_GROUP_RACES, "others")
        ),
    )


def encode(
    table: "pl.DataFrame", *, open_buckets: bool = False
) -> tuple[NDArray[np.float64], tuple[str, ...], NDArray[np.int64], NDArray[np.int64]]:
    """Turn a raw table into arrays.

    Args:
        table: The columns of `COLUMNS` as text, or with numbers where they are numbers.
        open_buckets: Whether the lowest value of a column is without a bucket if it is the first edge.

    Returns:
        The features, 120 indicators; their names; the labels, 1 for an income above 50,000; the groups, 0 White,
        1 Black, 2 others.

    Raises:
        DataError: A column is missing, or a value is none of the known ones.
    """
    check_columns(NAME, table, COLUMNS)
    race = _codes(table, "race", CATEGORIES["race"])
    labels = _codes(table, "income", INCOMES)
    blocks = [_indicators(_codes(table, column, values), len(values)) for column, values in CATEGORIES.items()]
    names = [f"{column}_{value}" for column, values in CATEGORIES.items() for value in values]
    measured = numbers(NAME, table, list(BUCKETS))
    for column, edges in BUCKETS.items():
        blocks.append(_bucket_indicators(column, measured[column].to_numpy(), edges, open_buckets))
        names += [f"{column}_{low}_{high}" for low, high in itertools.pairwise(edges)]
    kept = [position for position, name in enumerate(names) if name not in _LEFT_OUT]
    groups = np.full(len(CATEGORIES["race"]), len(_GROUP_RACES))
    for number, value in enumerate(_GROUP_RACES):
        groups[CATEGORIES["race"].index(value)] = number
    return np.hstack(blocks)[:, kept], tuple(names[position] for position in kept), labels, groups[race]


def _codes(table: "pl.DataFrame", column: str, values: Sequence[str]) -> NDArray[np.int64]:
    """Position of each row's value among the known ones."""
    import polars as pl  # noqa: PLC0415

    text = table[column].cast(pl.String)
    codes = text.replace_strict(list(values), range(len(values)), default=None, return_dtype=pl.Int64)
    bad = codes.is_null()
    if bad.any():
        row = int(bad.arg_true()[0])
        raise DataError(
            f"Dataset {NAME!r}: {column} must be one of {', '.join(values)}; found {text[row]!r} in row {row}, counted "
            f"from 0, and {int(bad.sum())} such rows in all. Check the file."
        )
    return codes.to_numpy()


def _indicators(codes: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """One column for each code from 0 to `count` - 1; a code outside of them has none."""
    return (codes[:, None] == np.arange(count)).astype(np.float64)


def _bucket_indicators(
    column: str, values: NDArray[np.float64], edges: Sequence[int], open_buckets: bool
) -> NDArray[np.float64]:
    bad = ~((values >= edges[0]) & (values <= edges[-1]))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"Dataset {NAME!r}: {column} must be from {edges[0]} to {edges[-1]}; found {values[row]:g} in row {row}, "
            "counted from 0. Check the file."
        )
    # How many of the lower edges a value is above, minus one: the first bucket is 0, the first edge itself -1.
    codes = np.searchsorted(np.asarray(edges[:-1], dtype=np.float64), values, side="left") - 1
    return _indicators(codes if open_buckets else np.maximum(codes, 0), len(edges) - 1)


def entry() -> DatasetEntry:
    """The catalogue entry."""
    return DatasetEntry(
        name=NAME,
        summary="Adult (census income): 48,842 people, 120 indicators, three groups by race; to be fetched.",
        reference="B. Becker, R. Kohavi (1996). Adult. UCI Machine Learning Repository, doi:10.24432/C5XW20.",
        config=AdultConfig,
        factory=load_adult,
        provides=frozenset({"labels", "binary_labels", "groups"}),
        files=FILES,
        licence="CC BY 4.0",
    )
