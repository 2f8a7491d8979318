"""Short names for things that may share one: what differs between them is appended."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from drobench.results.fields import storable


def content_key(value: Any) -> str:
    """Equal for equal content, whatever the order of keys."""
    # Nearly always plain JSON types, which the encoder takes as they are; thousands of runs are sorted by such keys.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=storable)


def distinguishing_labels(things: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """One label per thing, all different: its name, and in brackets the settings in which its namesakes differ.

    Args:
        things: Name and settings, which may be nested.
    """
    namesakes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, settings in things:
        namesakes[name].append(flattened(settings))
    differing = {name: _differing_keys(group) for name, group in namesakes.items()}
    return _numbered([_label(name, flattened(settings), differing[name]) for name, settings in things])


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level of dotted keys, as they are written on the command line."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= flattened(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _differing_keys(group: Sequence[Mapping[str, Any]]) -> list[str]:
    if len(group) == 1:
        return []
    keys = list(dict.fromkeys(key for settings in group for key in settings))
    return [key for key in keys if len({_presence(settings, key) for settings in group}) > 1]


def _presence(settings: Mapping[str, Any], key: str) -> str | None:
    return content_key(settings[key]) if key in settings else None


def _label(name: str, settings: Mapping[str, Any], keys: Sequence[str]) -> str:
    shown = [f"{key}={_text(settings[key])}" for key in keys if key in settings]
    return f"{name} ({', '.join(shown)})" if shown else name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else content_key(value)


def _numbered(labels: Sequence[str]) -> list[str]:
    """Number what still looks alike, such as the text "1" and the number 1: as keys, labels must not swallow runs."""
    seen: Counter[str] = Counter()
    unique = []
    for label in labels:
        seen[label] += 1
        unique.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return unique
