"""Values frozen bit by bit, to see later whether anything has changed.

A snapshot shares no memory with what it was taken of, and two are equal exactly when all numbers are, to the last bit;
"not a number" equals itself.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

_UNNAMED = ("list", "tuple")
_ATOMS = (bool, int, float, complex, str, bytes, type(None))


def snapshot(value: Any) -> Any:
    """Return nested tuples of what `value` consists of."""
    return _snapshot(value, ())


def _snapshot(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, float):
        return ("float", np.float64(value).tobytes())
    if isinstance(value, _ATOMS):
        return (type(value).__name__, value)
    if isinstance(value, torch.Tensor):
        content = value.detach().cpu().contiguous()
        return ("tensor", str(content.dtype), str(value.device), tuple(content.shape), content.numpy().tobytes())
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, np.random.Generator):
        return ("generator", repr(value.bit_generator.state))
    if isinstance(value, torch.Generator):
        return ("generator", value.get_state().numpy().tobytes())
    if id(value) in above:
        return ("above",)
    above = (*above, id(value))
    if isinstance(value, Mapping):
        return ("mapping", tuple((repr(key), _snapshot(item, above)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(_snapshot(item, above) for item in value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = ((field.name, _snapshot(getattr(value, field.name), above)) for field in dataclasses.fields(value))
        return (type(value).__qualname__, tuple(parts))
    if hasattr(value, "__dict__") and not callable(value) and not isinstance(value, type):
        return (type(value).__qualname__, _snapshot(vars(value), above))
    return (type(value).__qualname__, repr(value))


def difference(before: Any, after: Any) -> str:
    """Say where two snapshots differ first, in words; empty if they are equal."""
    return "" if before == after else _where(before, after) or "another kind of value"


def _where(before: Any, after: Any) -> str:
    named = _parts(before), _parts(after)
    if named[0] is None or named[1] is None or list(named[0]) != list(named[1]):
        return ""
    for name, part in named[0].items():
        if part != named[1][name]:
            deeper = _where(part, named[1][name])
            return f"{name}.{deeper}" if deeper else name
    return ""


def _parts(taken: Any) -> dict[str, Any] | None:
    """Return the named parts of the snapshot of a dataclass, a mapping or an object."""
    if not (isinstance(taken, tuple) and len(taken) == 2 and isinstance(taken[1], tuple)) or taken[0] in _UNNAMED:
        return None
    pairs = taken[1][1] if len(taken[1]) == 2 and taken[1][0] == "mapping" else taken[1]
    if all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        return dict(pairs)
    return None
