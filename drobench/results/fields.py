"""Between JSON objects and typed dataclasses: what a field must be is said once, by its annotation.

A `Part` is a JSON object with fixed fields. Fields may be added by later versions or by hand, so everything beyond the
fixed ones is kept in `others` and written back where it was found.
"""

import dataclasses
import math
import reprlib
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy

from drobench.errors import DrobenchError
from drobench.harmless import harmless

OPTIONAL = {"optional": True}
"""Metadata of a field that may be missing when a record is read; all others must be there, if only as null."""

_LAYOUTS: dict[type, "_Layout"] = {}
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object"}


class DamagedRecord(DrobenchError):
    """A stored run cannot be read as what it claims to be.

    Args:
        file: The file that is damaged.
        field: The dotted name of the field, or `None` when the file as a whole is meant.
        expected: What should have been there.
        found: What is there.
    """

    def __init__(self, file: str | Path, field: str | None, expected: str, found: str) -> None:
        # The parts, not the sentence, are the arguments, so that the error survives pickling between processes.
        super().__init__(file, field, expected, found)
        self.file = Path(file)
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        place = f"field `{self.field}`" if self.field else "the file"
        return (
            f"Damaged record {self.file}: {place} should be {self.expected}; found {self.found}. "
            "Repeat the run to replace it."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A JSON object with fixed fields.

    Attributes:
        others: Fields that this version does not know, kept for the round trip.
    """

    others: dict[str, Any] = dataclasses.field(default_factory=dict)


PartType = TypeVar("PartType", bound=Part)


def storable(value: Any) -> Any:
    """The value as plain JSON types.

    Numbers that are not finite become null: strict JSON has no word for them, and null is the word of a record for
    "there is no such value". Texts are made harmless, whoever wrote them.
    """
    if isinstance(value, Part):
        known = {name: storable(getattr(value, name)) for name in known_fields(type(value))}
        return known | {name: storable(other) for name, other in value.others.items() if name not in known}
    if isinstance(value, numpy.generic):
        return storable(value.item())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, Mapping):
        return {harmless(name) if type(name) is str else name: storable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return harmless(value) if type(value) is str else value


def is_deeper_than(payload: Any, levels: int) -> bool:
    """Whether lists and objects are nested in each other more often than so many times."""
    inner = [payload]
    for _ in range(levels + 1):
        inner = [
            item
            for value in inner
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        if not inner:
            return False
    return True


def decode(kind: type[PartType], payload: Any, file: str | Path, where: str = "") -> PartType:
    """Build a part from a JSON object.

    Args:
        kind: The dataclass to build.
        payload: What the JSON parser returned.
        file: The file it comes from, for the error.
        where: The dotted name of the object within the file; empty for the outermost one.

    Raises:
        DamagedRecord: If a field is missing or has the wrong type.
    """
    if not isinstance(payload, dict):
        raise DamagedRecord(file, where or None, "an object", describe(payload))
    fields, hints, exact = _layout(kind)
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in payload and type(payload[name]) in exact[name]:
            values[name] = payload[name]
            continue
        place = f"{where}.{name}" if where else name
        if name in payload:
            values[name] = _decode_value(hints[name], payload[name], file, place)
        elif not field.metadata.get("optional"):
            raise DamagedRecord(file, place, _expected(hints[name]), "nothing: the field is missing")
    others = {name: value for name, value in payload.items() if name not in fields}
    return kind(**values, others=others)


def known_fields(kind: type[Part]) -> dict[str, dataclasses.Field[Any]]:
    """The fixed fields of a part, in the order in which they are written."""
    return _layout(kind).fields


def describe(value: Any) -> str:
    """A short text that shows a value found in a file."""
    return "null" if value is None else reprlib.repr(value)


class _Layout(NamedTuple):
    """What a part is made of, worked out once: thousands of records have the same parts.

    Attributes:
        fields: The fixed fields.
        hints: Their annotations.
        exact: The types of values that need no further look.
    """

    fields: dict[str, dataclasses.Field[Any]]
    hints: dict[str, Any]
    exact: dict[str, tuple[type, ...]]


def _layout(kind: type[Part]) -> _Layout:
    if kind not in _LAYOUTS:
        fields = {field.name: field for field in dataclasses.fields(kind) if field.name != "others"}
        hints = get_type_hints(kind)
        _LAYOUTS[kind] = _Layout(fields, hints, {name: _exact_types(hints[name]) for name in fields})
    return _LAYOUTS[kind]


def _exact_types(annotation: Any) -> tuple[type, ...]:
    plain = () if annotation is Any or _bare(annotation) not in _WORDS else (_bare(annotation),)
    return (*plain, NoneType) if _is_optional(annotation) else plain


def _decode_value(annotation: Any, value: Any, file: str | Path, place: str) -> Any:
    if annotation is Any or (value is None and _is_optional(annotation)):
        return value
    kind = _bare(annotation)
    if issubclass(kind, Part):
        if isinstance(value, dict):
            return decode(kind, value, file, place)
    elif issubclass(kind, StrEnum):
        if value in list(kind):
            return kind(value)
    elif kind is float:
        # JSON writers may drop the point of a whole float. A bool is an int to Python, but not a number in a record.
        if isinstance(value, float) or (type(value) is int and abs(value) <= sys.float_info.max):
            return float(value)
    elif type(value) is kind:
        return value
    raise DamagedRecord(file, place, _expected(annotation), describe(value))


@cache
def _is_optional(annotation: Any) -> bool:
    return NoneType in get_args(annotation)


@cache
def _bare(annotation: Any) -> type:
    """The class behind `X`, `X | None` and `dict[...]`."""
    if NoneType in get_args(annotation):
        (annotation,) = (member for member in get_args(annotation) if member is not NoneType)
    kind: type = get_origin(annotation) or annotation
    return kind


def _expected(annotation: Any) -> str:
    if annotation is Any:
        return "any value"
    kind = _bare(annotation)
    words = "one of " + ", ".join(kind) if issubclass(kind, StrEnum) else _WORDS.get(kind, "an object")
    return words + (" or null" if NoneType in get_args(annotation) else "")
