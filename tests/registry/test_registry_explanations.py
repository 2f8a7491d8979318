"""What settings mean, read from the source of their dataclass."""

from dataclasses import dataclass, field, make_dataclass
from typing import Any, Optional

import pytest

from drobench.registry.explanations import settings_of, type_text


@dataclass
class Parent:
    """Settings of many.

    Attributes:
        pace: How fast, which is
            said over two lines.
        other (int): With a type.
    """

    pace: float = 1.0
    other: int = 2
    inherited: bool = False
    """Told below,
    over two lines."""


@dataclass
class Child(Parent):
    """Settings of one."""

    silent: str = "x"
    listed: list[int] = field(default_factory=lambda: [1, 2])
    """A list."""
    pace: float = 3.0
    """Told again."""


def test_settings_have_the_texts_that_stand_below_them_or_in_the_list_of_attributes():
    found = {setting.name: setting for setting in settings_of(Child)}
    assert list(found) == ["pace", "other", "inherited", "silent", "listed"]
    assert {name: setting.text for name, setting in found.items()} == {
        "pace": "Told again.",
        "other": "With a type.",
        "inherited": "Told below, over two lines.",
        "silent": "",
        "listed": "A list.",
    }
    assert {name: setting.default for name, setting in found.items()} == {
        "pace": 3.0, "other": 2, "inherited": False, "silent": "x", "listed": [1, 2],
    }  # fmt: skip
    assert settings_of(Parent)[0].text == "How fast, which is said over two lines."


def test_a_class_without_source_has_settings_without_texts():
    (setting,) = settings_of(make_dataclass("Made", [("width", int, 3)]))
    assert (setting.name, setting.type, setting.default, setting.text) == ("width", "int", 3, "")


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "int"),
        (float | None, "float or null"),
        (Optional[float], "float or null"),  # noqa: UP045  # as older plugins write it
        (int | str, "int or str"),
        (list[int], "list[int]"),
        (dict[str, float], "dict[str, float]"),
        (list[int] | None, "list[int] or null"),
        (Any, "Any"),
    ],
)
def test_types_are_told_as_in_a_configuration(hint, text):
    assert type_text(hint) == text


def test_what_our_own_plugins_say_is_found():
    from drobench_plugins.solvers.scgd import ScgdConfig

    texts = {setting.name: setting.text for setting in settings_of(ScgdConfig)}
    assert texts["batch"] == "S, of the samples and of the constraints."
    assert texts["step_size"].startswith("The (first) step size")  # of the class above it
