"""Errors a person is meant to read, and the checks of settings that raise them.

The command line prints a `DrobenchError` as one message without a traceback. Its text therefore names the object, what
was expected, what was found, and what to do.
"""

import math
from collections.abc import Collection
from typing import Any


class DrobenchError(Exception):
    """Base of every error that is the user's to fix, as opposed to a defect of the program."""

    exit_code = 2
    """What the command line returns: 2 for wrong use, 1 for a run that went wrong."""


class SettingError(DrobenchError, ValueError):
    """A setting has the right type but an impossible value."""


def require_positive(settings: Any, *names: str) -> None:
    """Raise unless each named setting is `None` or a finite number above zero."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not (_is_finite(value) and value > 0):
            raise _refused(settings, name, value, "a finite number above 0")


def require_non_negative(settings: Any, *names: str) -> None:
    """Raise unless each named setting is `None` or a finite number of at least zero."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not (_is_finite(value) and value >= 0):
            raise _refused(settings, name, value, "a finite number of at least 0")


def require_one_of(settings: Any, name: str, choices: Collection[str]) -> None:
    """Raise unless the named setting is one of `choices`."""
    value = getattr(settings, name)
    if value not in choices:
        raise _refused(settings, name, value, "one of " + ", ".join(choices))


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False  # a whole number beyond all floats


def _refused(settings: Any, name: str, value: Any, expected: str) -> SettingError:
    return SettingError(f"{type(settings).__name__}.{name} must be {expected}; found {value!r}. Change `{name}=`.")
