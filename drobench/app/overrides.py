"""Words of a command line, looked at before Hydra sees them: it answers some mistakes with what broke inside it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, QuotedString

from drobench.app.results_folder import at_home
from drobench.errors import DrobenchError

_LONGEST = 10_000
_SHOWN = 120


class ConfigError(DrobenchError):
    """The configuration cannot be composed."""


def check_overrides(words: Sequence[str], groups: Mapping[str, Sequence[str]]) -> None:
    """Refuse choices of groups that are no name, and words that are no overrides.

    Args:
        words: What was typed, without flags.
        groups: The names that each group offers.

    Raises:
        ConfigError: If one of them cannot be meant.
    """
    parser = OverridesParser.create()
    for word in words:
        if len(word) > _LONGEST:
            raise ConfigError(f"An override has at most {_LONGEST} characters; found {len(word)} in {shown(word)}.")
        try:
            override = parser.parse_override(word)
        except Exception as error:  # the parser converts numbers, and fails there in ways of its own
            raise ConfigError(f"{shown(word)} cannot be read as KEY=VALUE: {first_line(error)}") from error
        if override.key_or_group in groups and not override.is_delete():
            _check_choice(word, override, groups[override.key_or_group])


def with_home(words: Sequence[str]) -> list[str]:
    """Return the words with the home folder in place of the ~ that `results=` may begin with; Hydra knows none."""
    marked = ((word, re.fullmatch(r"(\+{0,2}results=)(~[^'\"]*)", word)) for word in words)
    return [word if not home else home[1] + as_override(at_home(Path(home[2]))) for word, home in marked]


def as_override(value: Any) -> str:
    """Return a value as it is written on Hydra's command line, texts in quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ",".join(as_override(item) for item in value) + "]"
    if isinstance(value, int | float) or re.fullmatch(r"[\w.\-]+", str(value), flags=re.ASCII):
        return str(value)
    # Only before a quote, the closing one included, a backslash has to be doubled.
    escaped = re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), str(value))
    return f"'{escaped}'"


def shown(value: Any) -> str:
    """Return a word or another value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def first_line(error: BaseException) -> str:
    """Return what an error says first, or its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][: 4 * _SHOWN] if lines else type(error).__name__


def _check_choice(word: str, override: Override, names: Sequence[str]) -> None:
    value = override._value
    choices = value.list if isinstance(value, ChoiceSweep) else [value]
    for choice in choices:
        # A mapping chooses nothing: it sets several settings of the group at once.
        if not isinstance(choice, str | QuotedString | Glob | dict):
            group = override.key_or_group
            raise ConfigError(
                f"{shown(word)}: {group} is chosen by its name; found {shown(choice)}. {group}=... can be: "
                f"{', '.join(sorted(names))}. A setting of it is written {group}.KEY=VALUE."
            )
