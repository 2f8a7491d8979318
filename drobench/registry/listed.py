"""Entries without what they stand for: name, description and settings, in a form that can be stored and read again.

Settings may be of type bool, int, float, str, lists, tuples or dicts of these, one of several of these, or None, which
is what plugins are promised. An entry with any other is not listed, and then nothing is.
"""

import copy
import dataclasses
import functools
import operator
import types
from dataclasses import dataclass
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from drobench.errors import DrobenchError
from drobench.registry.entries import Entry
from drobench.registry.explanations import TEXT, settings_of

_PLAIN: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str, "None": type(None), "Any": Any}
_CONTAINERS: dict[str, Any] = {"list": list, "dict": dict, "tuple": tuple}
_NAMES: dict[Any, str] = {kind: name for name, kind in (_PLAIN | _CONTAINERS).items()}


class NotListable(DrobenchError):
    """A setting is of a kind that only its own class can tell."""


@dataclass(frozen=True, kw_only=True)
class ListedEntry(Entry):
    """What a list says of an entry: enough to name, describe and configure a thing, not to build it."""

    reconstructed: bool = False


def listed(entry: Entry) -> dict[str, Any]:
    """Return an entry as values of JSON.

    Raises:
        NotListable: If that cannot be.
    """
    return {
        "name": entry.name,
        "summary": entry.summary,
        "reference": entry.reference,
        "config_changes": list(entry.config_changes),
        "reconstructed": getattr(entry, "reconstructed", False) is True,
        "config": _listed_config(entry.config),
    }


def unlisted(values: dict[str, Any]) -> ListedEntry:
    """Return the entry of such values."""
    return ListedEntry(
        **{name: values[name] for name in ("name", "summary", "reference", "reconstructed")},
        config_changes=tuple(values["config_changes"]),
        config=_config_of(values["config"]),
        factory=functools.partial(_not_here, values["name"]),
    )


def _not_here(name: str, *_: Any) -> NoReturn:
    raise AssertionError(f"{name!r} is an entry of a list, which builds nothing: take that of `load_catalogue()`.")


def _listed_config(config: type) -> dict[str, Any]:
    if any(hasattr(base, "__getitem__") for base in config.__mro__[:-1]):
        raise NotListable(f"{config.__name__} is a container too.")
    hints = get_type_hints(config)
    marked = [item.name for item in dataclasses.fields(config) if item.metadata or not item.init]
    if marked:
        raise NotListable(f"{config.__name__}: {', '.join(marked)} are marked for somebody.")
    fields = [
        {
            "name": setting.name,
            "type": _listed_type(hints[setting.name]),
            "default": _listed_value(setting.default),
            "text": setting.text,
        }
        for setting in settings_of(config)
    ]
    return {"class": config.__name__, "doc": config.__doc__ or "", "fields": fields}


def _config_of(values: dict[str, Any]) -> type:
    fields = [
        (item["name"], _type_of(item["type"]), _field(_value_of(item["default"]), item["text"]))
        for item in values["fields"]
    ]
    made = dataclasses.make_dataclass(values["class"], fields)
    made.__doc__ = values["doc"]
    return made


def _field(default: Any, text: str) -> Any:
    metadata = {TEXT: text}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=functools.partial(copy.deepcopy, default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def _listed_type(hint: Any) -> Any:
    if hint in _NAMES:
        return _NAMES[hint]
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return ["or", *(_listed_type(part) for part in parts)]
    if origin in _CONTAINERS.values():
        return [_NAMES[origin], *("..." if part is ... else _listed_type(part) for part in parts)]
    raise NotListable(f"{hint} is no type of a value in JSON.")


def _type_of(listed_type: Any) -> Any:
    if isinstance(listed_type, str):
        return (_PLAIN | _CONTAINERS)[listed_type]
    head, *rest = listed_type
    parts = tuple(... if part == "..." else _type_of(part) for part in rest)
    return functools.reduce(operator.or_, parts) if head == "or" else _CONTAINERS[head][parts]


def _listed_value(value: Any) -> Any:
    """Return a default as values of JSON, sequences with their kind; by exact types, since subclasses know more."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        return {type(value).__name__: [_listed_value(item) for item in value]}
    if type(value) is dict and all(type(name) is str for name in value):
        return {"dict": {name: _listed_value(item) for name, item in value.items()}}
    raise NotListable(f"{value!r} is no value of JSON.")


def _value_of(stored: Any) -> Any:
    if not isinstance(stored, dict):
        return stored
    ((kind, content),) = stored.items()
    if kind == "dict":
        return {name: _value_of(item) for name, item in content.items()}
    return _CONTAINERS[kind](_value_of(item) for item in content)
