"""YAML of strangers: plain values and nothing else, and never more of them than a configuration can have.

An alias makes one part of a file stand in several places, and aliases of aliases make a few lines stand for billions of
values. So the values are counted on the graph that the parser makes of the file, before anything is made of it.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from drobench.app.overrides import ConfigError

MOST_VALUES = 100_000
INTERPOLATION = "${"
_FLOAT = "tag:yaml.org,2002:float"
_NOT_READ = ("tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp")


class BadYaml(ConfigError):
    """A text that is no YAML, or more of it than is read."""


class _Loader(yaml.SafeLoader):
    """Reads dates as texts and numbers as Python writes them, and takes no key twice, as Hydra does."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"found key {key.value!r} twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _NOT_READ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# The one of YAML 1.1 takes 1e-3 for a text.
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?(?:[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)"
        r"|\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)\Z"
    ),
    list("-+0123456789."),
)


def read_plain_yaml(text: str, what: str) -> Any:
    """Return the plain values in a text.

    Args:
        text: The YAML.
        what: What it is, for the error.

    Raises:
        BadYaml: If it is no YAML, asks for objects of other kinds, or stands for too many values or endless ones.
    """
    loader = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        values = _count(root, {}, set())
        if values > MOST_VALUES:
            raise BadYaml(f"{what} stands for more than {MOST_VALUES} values, which no configuration has.")
        return loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        # Some numbers are found too long only when they are converted.
        raise BadYaml(f"{what} is no readable YAML: {error}") from error
    except RecursionError:
        raise BadYaml(f"{what} is nested too deep to be read.") from None
    finally:
        if loader is not None:
            loader.dispose()


def texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in nested values, keys included, with its dotted place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, item in value.items():
            inner = f"{place}.{key}" if place else str(key)
            yield from texts(key, inner)
            yield from texts(item, inner)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from texts(item, place)


def _count(node: yaml.Node, known: dict[int, int], above: set[int]) -> int:
    """Return how many values a node stands for, each alias followed; a node is looked at once."""
    if id(node) in above:
        raise yaml.composer.ComposerError(None, None, "found a value that contains itself", node.start_mark)
    if id(node) not in known:
        above.add(id(node))
        parts = node.value if isinstance(node.value, list) else []
        inner = [part for entry in parts for part in (entry if isinstance(entry, tuple) else (entry,))]
        known[id(node)] = 1 + sum(_count(part, known, above) for part in inner)
        above.remove(id(node))
    return known[id(node)]
