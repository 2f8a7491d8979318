"""Entries in a form that can be stored: nothing is lost that a configuration needs."""

import dataclasses
import enum
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, get_type_hints

import pytest

from drobench.registry import load_catalogue
from drobench.registry.explanations import settings_of
from drobench.registry.listed import NotListable, listed, unlisted


@dataclass
class Everything:
    """All that settings may be."""

    flag: bool = True
    count: int = 3
    rate: float = 1e-7
    endless: float = float("inf")
    word: str = "ä '\n"
    maybe: float | None = None
    older: Optional[int] = 2  # noqa: UP045  # as older plugins write it
    several: int | str = "x"
    anything: Any = None
    numbers: list[float] = field(default_factory=lambda: [0.5, 1])
    names: dict[str, list[int]] = field(default_factory=lambda: {"a": [1], "b": []})
    pair: tuple[int, float] = (1, 2.0)
    row: tuple[int, ...] = (1, 2)
    """As long as one likes."""


def through_json(entry):
    return unlisted(json.loads(json.dumps(listed(entry))))


def described(config):
    """What a configuration takes of a class: types as they are, values with theirs."""
    hints = get_type_hints(config)
    return [(item.name, hints[item.name], repr(item.default), item.text) for item in settings_of(config)]


def test_every_kind_of_setting_comes_back_as_it_was(solver):
    entry = solver("ours", config=Everything, reference="A book", config_changes=("rate is another",))
    back = through_json(entry)
    assert described(back.config) == described(Everything)
    assert back.config.__name__ == "Everything"
    assert (back.name, back.summary, back.reference) == (entry.name, entry.summary, entry.reference)
    assert (back.config_version, back.reconstructed) == (2, False)
    assert dataclasses.asdict(back.config()) == dataclasses.asdict(Everything())


def test_two_objects_of_a_listed_class_share_no_list(solver):
    config = through_json(solver("ours", config=Everything)).config
    first, second = config(), config()
    first.numbers.append(2.0)
    first.names["a"].append(2)
    assert second.numbers == [0.5, 1]
    assert second.names == {"a": [1], "b": []}
    assert config().names["a"] == [1]


def test_a_listed_entry_builds_nothing(solver):
    with pytest.raises(AssertionError, match="'ours' is an entry of a list"):
        through_json(solver("ours")).factory(None)


class Colour(enum.Enum):
    RED = 1


class Number(int):
    pass


@dataclass
class Nested:
    inner: Everything = field(default_factory=Everything)


@dataclass
class Coloured:
    colour: Colour = Colour.RED


@dataclass
class Placed:
    path: Path = Path()


@dataclass
class Special:
    number: int = Number(3)  # it cannot be changed


@dataclass
class Keyed:
    by_number: dict[int, str] = field(default_factory=lambda: {1: "a"})


@dataclass
class Marked:
    ignored: int = field(default=1, metadata={"omegaconf_ignore": True})


@dataclass
class Mapping(dict[str, Any]):
    number: int = 3


@pytest.mark.parametrize("config", [Nested, Coloured, Placed, Special, Keyed, Marked, Mapping])
def test_what_json_cannot_tell_is_not_listed(solver, config):
    with pytest.raises(NotListable):
        listed(solver("ours", config=config))


def test_everything_that_is_installed_can_be_listed():
    for plural, entries in load_catalogue().of_kinds().items():
        for name, found in entries.items():
            back = through_json(found.entry)
            assert described(back.config) == described(found.entry.config), (plural, name)
            assert back.config_version == found.entry.config_version
            assert back.reconstructed == getattr(found.entry, "reconstructed", False)
