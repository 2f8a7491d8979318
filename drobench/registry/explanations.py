"""What settings mean: the texts that stand below the fields of a dataclass, read from its source."""

import ast
import dataclasses
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

TEXT = "explanation"
"""Where a field without source keeps its text, in its metadata."""
_ATTRIBUTES = re.compile(r"^Attributes:\n(.*?)(?:\n\S|\Z)", re.DOTALL | re.MULTILINE)
_ATTRIBUTE = re.compile(r"^ {4}(\w+)(?: \([^)]*\))?:[ \n](.*(?:\n {5,}.*)*)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting as it is explained.

    Attributes:
        name: How it is called.
        type: What it takes, in words of a configuration: `float or null`.
        default: What it is unless it is set.
        text: What it means; empty where its author has not said so.
    """

    name: str
    type: str
    default: Any
    text: str


def settings_of(config: type) -> list[Setting]:
    """Return the settings of a dataclass, in their order."""
    hints, texts = get_type_hints(config), _texts(config)
    return [
        Setting(
            name=item.name,
            type=type_text(hints[item.name]),
            default=item.default if item.default_factory is dataclasses.MISSING else item.default_factory(),
            text=item.metadata.get(TEXT, texts.get(item.name, "")),
        )
        for item in dataclasses.fields(config)
    ]


def type_text(hint: Any) -> str:
    """Return a type as a person writes it who knows configurations and not necessarily Python."""
    bare = isinstance(hint, type) and not get_args(hint)  # the name of `list[int]` is `list`
    words = re.sub(r"\b(?:typing|builtins|pathlib)\.", "", hint.__name__ if bare else str(hint))
    words = re.sub(r"Optional\[(.*)\]$", r"\1 | None", words)
    return words.replace("NoneType", "None").replace(" | None", " or null").replace(" | ", " or ")


def _texts(config: type) -> dict[str, str]:
    """Return the texts of a class and of those that it is made of, its own before theirs."""
    found: dict[str, str] = {}
    for owner in reversed(config.__mro__):
        if dataclasses.is_dataclass(owner):
            found.update(_own_texts(owner))
    return found


@functools.cache
def _own_texts(owner: type) -> dict[str, str]:
    listed = _ATTRIBUTES.search(inspect.getdoc(owner) or "")
    texts = {name: _on_one_line(text) for name, text in _ATTRIBUTE.findall(listed[1])} if listed else {}
    return {**texts, **dict(_below_fields(owner))}


def _below_fields(owner: type) -> Iterator[tuple[str, str]]:
    try:
        source = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):
        # A class made at run time has no source, and a stranger's may be where it cannot be read by itself.
        return
    (body,) = (node.body for node in source.body if isinstance(node, ast.ClassDef))
    for field, below in itertools.pairwise(body):
        text = below.value if isinstance(below, ast.Expr) else None
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Constant)
            and isinstance(text.value, str)
        ):
            yield field.target.id, _on_one_line(text.value)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
