"""How a raw table becomes numbers, as a value that is kept with every solution: JSON, read with suspicion.

There are two steps. First each raw column becomes one column of numbers: a number is itself, a boolean 0 or 1, a text
the position of its value among the known categories, or -1 for one that is not known; a gap is NaN. Then each column
becomes one feature or several, by rules that need no text: gaps are filled in, categories become indicators, and a
column whose gaps mean something gets an indicator of the gap.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import DataError

KINDS = ("number", "boolean", "category")
UNSEEN = ("zeros", "refuse")
UNKNOWN_CODE = -1.0
LONGEST = 1 << 24
"""Characters of an encoder as JSON; a stranger's may be made to fill the memory."""
MOST_FEATURES = 1_000_000

Label = str | int | float | bool


@dataclass(frozen=True)
class Column:
    """A column of the raw table.

    Attributes:
        name: What it is called there.
        kind: `number`, `boolean` or `category`.
        categories: The values of a category that have an indicator, in their order.
        fill: What stands for a gap: a number, or the position of a category; `None`: nothing does.
        flagged: Whether gaps have an indicator of their own.
    """

    name: str
    kind: str = "number"
    categories: tuple[str, ...] = ()
    fill: float | None = None
    flagged: bool = False

    @property
    def takes_gaps(self) -> bool:
        """Whether a row may have no value here."""
        return self.flagged or self.fill is not None

    @property
    def feature_names(self) -> list[str]:
        """The features that it becomes."""
        own = [f"{self.name}_{value}" for value in self.categories] if self.kind == "category" else [self.name]
        return [*own, f"{self.name}_missing"] if self.flagged else own


@dataclass(frozen=True, eq=False)
class Expansion:
    """The second step as arrays: what each feature is made of.

    Attributes:
        source: Of each feature, the number of the raw column, `(features,)`.
        code: The position of the category of which it is the indicator; NaN where it is none, `(features,)`.
        flag: Whether it is the indicator of a gap, `(features,)`.
        fill: What stands for a gap in each raw column, NaN for nothing, `(columns,)`.
    """

    source: NDArray[np.int64]
    code: NDArray[np.float64]
    flag: NDArray[np.bool_]
    fill: NDArray[np.float64]

    def apply(self, coded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the features of coded rows."""
        gap = np.isnan(coded)
        filled = np.where(gap, self.fill, coded)[:, self.source]
        values = np.where(np.isnan(self.code), filled, (filled == self.code).astype(np.float64))
        return np.where(self.flag, gap[:, self.source].astype(np.float64), values)


@dataclass(frozen=True)
class TableEncoder:
    """How raw rows become features, and what the answers of a model mean.

    Attributes:
        columns: The raw columns, in the order of their features.
        classes: The label of each class in the words of the source; empty where targets are numbers.
        target: What is predicted, by the name of its column; `None` where it has none.
        target_scale: What targets were divided by.
        missing_words: Texts that stand for a gap, compared in small letters and without spaces around them.
        unseen: What becomes of a category that no training row had: `zeros` (no indicator is set) or `refuse`.
        group: The column that says which group a row belongs to; `None` where there is none.
        groups: The value of each group in that column, in the order of their numbers.
    """

    columns: tuple[Column, ...]
    classes: tuple[Label, ...] = ()
    target: str | None = None
    target_scale: float = 1.0
    missing_words: tuple[str, ...] = ("",)
    unseen: str = "zeros"
    group: str | None = None
    groups: tuple[str, ...] = field(default=())

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per feature."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def expansion(self) -> Expansion:
        """Return the second step."""
        source: list[int] = []
        code: list[float] = []
        flag: list[bool] = []
        for number, column in enumerate(self.columns):
            codes = [float(k) for k in range(len(column.categories))] if column.kind == "category" else [math.nan]
            extra = int(column.flagged)
            source += [number] * (len(codes) + extra)
            code += [*codes, *[math.nan] * extra]
            flag += [*[False] * len(codes), *[True] * extra]
        fill = [math.nan if column.fill is None else column.fill for column in self.columns]
        return Expansion(np.array(source, dtype=np.int64), np.array(code), np.array(flag, dtype=bool), np.array(fill))

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "TableEncoder":
        """Read what `to_json` wrote, or what somebody says it did; keys that are not known are ignored.

        Raises:
            DataError: It is no encoder.
        """
        if len(text) > LONGEST:
            raise DataError(f"Encoder: at most {LONGEST} characters are read; found {len(text)}.")
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"Encoder: JSON is needed; found a text that is none ({type(error).__name__}).") from error
        return _read_encoder(values)


def number_encoder(names: Sequence[str], **settings: Any) -> TableEncoder:
    """Return the encoder of a table of numbers, each column a feature."""
    return TableEncoder(tuple(Column(str(name)) for name in names), **settings)


def _read_encoder(values: Any) -> TableEncoder:
    known = _known(values, TableEncoder)
    _require("columns", isinstance(known.get("columns"), list), "a list", known.get("columns"))
    known["columns"] = tuple(_read_column(item) for item in known["columns"])
    for name in ("classes", "missing_words", "groups"):
        if name in known:
            _require(name, isinstance(known[name], list), "a list", known[name])
            known[name] = tuple(known[name])
    encoder = TableEncoder(**known)
    features = sum(len(column.categories) + 1 for column in encoder.columns)
    _require("columns", 0 < features <= MOST_FEATURES, f"1 to {MOST_FEATURES} features", features)
    _check_classes(encoder.classes)
    for name in ("target", "group"):
        value = getattr(encoder, name)
        _require(name, value is None or isinstance(value, str), "text or nothing", value)
    for name in ("missing_words", "groups"):
        value = getattr(encoder, name)
        _require(name, all(isinstance(word, str) for word in value), "texts", value)
    _require("unseen", encoder.unseen in UNSEEN, " or ".join(UNSEEN), encoder.unseen)
    scale = encoder.target_scale
    _require("target_scale", _is_number(scale) and scale > 0, "a finite number above 0", scale)
    return encoder


def _read_column(values: Any) -> Column:
    known = _known(values, Column)
    _require("name", isinstance(known.get("name"), str), "text", known.get("name"))
    _require("kind", known.get("kind", "number") in KINDS, f"one of {', '.join(KINDS)}", known.get("kind"))
    categories = known.get("categories", [])
    _require("categories", isinstance(categories, list), "a list", categories)
    _require("categories", all(isinstance(value, str) for value in categories), "texts", categories)
    _require("categories", len(set(categories)) == len(categories), "distinct texts", categories)
    _require("flagged", isinstance(known.get("flagged", False), bool), "true or false", known.get("flagged"))
    column = Column(**{**known, "categories": tuple(categories)})
    fill = column.fill
    _require("fill", fill is None or _is_number(fill), "a finite number or nothing", fill)
    if column.kind == "category":
        _require("fill", fill is None or fill in range(len(categories)), "the position of a category", fill)
    else:
        _require("categories", not categories, "none for a number", categories)
    return column


def _check_classes(classes: tuple[Any, ...]) -> None:
    kinds = {type(label) for label in classes}
    sound = len(kinds) <= 1 and kinds <= {str, int, float, bool} and all(map(_is_plain, classes))
    _require("classes", sound, "labels of one kind: texts, numbers or truth values", classes)
    _require("classes", len(set(classes)) == len(classes) != 1, "none, or distinct ones, at least two", classes)


def _known(values: Any, kind: type) -> dict[str, Any]:
    _require(kind.__name__, isinstance(values, dict), "an object", values)
    return {name: value for name, value in values.items() if name in kind.__dataclass_fields__}  # type: ignore[attr-defined]


def _is_plain(label: Any) -> bool:
    return isinstance(label, str | bool) or _is_number(label)


def _is_number(value: Any) -> bool:
    # Whole numbers beyond all floats have no place here either.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _require(name: str, holds: bool, expected: str, found: Any) -> None:
    if not holds:
        raise DataError(f"Encoder: {name} must be {expected}; found {str(found)[:80]!a}.")
