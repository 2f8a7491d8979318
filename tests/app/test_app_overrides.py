"""Words of a command line, before Hydra sees them."""

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from drobench.app.overrides import ConfigError, as_override, check_overrides, first_line, shown, with_home

GROUPS = {"budget": ["default", "smoke"], "solver": ["gcivr"]}


@pytest.mark.parametrize("value", ["40", "1.5", "true", "null", "[gcivr,scgd]", "range(3)", "smoke,3", "nan"])
def test_a_group_is_chosen_by_a_name(value):
    with pytest.raises(ConfigError, match="budget is chosen by its name") as caught:
        check_overrides([f"budget={value}"], GROUPS)
    assert "budget=... can be: default, smoke" in str(caught.value)
    assert "budget.KEY=VALUE" in str(caught.value)


WORDS = ["budget=smoke", "budget='smoke'", "solver=gcivr,scgd", "solver=glob(*)", "~budget", "seed=3", "seed=range(5)"]


@pytest.mark.parametrize("word", [*WORDS, "budget={passes:3}", "+x=[1]"])
def test_what_hydra_understands_is_left_to_it(word):
    check_overrides([word], GROUPS)


@pytest.mark.parametrize("word", ["", "seed", "seed=${", "seed=" + "9" * 5000, "seed=" + "x" * 20_000, "a=b=c\x00{"])
def test_what_is_no_override_is_named_and_not_at_length(word):
    with pytest.raises(ConfigError) as caught:
        check_overrides([word], GROUPS)
    assert len(str(caught.value)) < 1000


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00$"), min_size=1))
def test_any_text_is_the_same_after_the_way_over_the_command_line(text):
    parsed = OverridesParser.create().parse_override(f"key={as_override(text)}").value()
    assert str(parsed) == text or float(parsed) == float(text)


@pytest.mark.parametrize("text", ["a\\b", "a\\", "\\", "'", "\\'", "it's\\'", "a\\\\'b\\\\"])
def test_backslashes_and_quotes_stay_what_they_are(text):
    assert OverridesParser.create().parse_override(f"key={as_override(text)}").value() == text


def test_the_home_folder_is_written_out(monkeypatch):
    monkeypatch.setenv("HOME", "/home/some one")
    words = ["results=~/y", "+results=~", "seed=3", "dataset.path=~/z", "results=a~b", "results='~/q'"]
    assert with_home(words) == [
        "results='/home/some one/y'",
        "+results='/home/some one'",
        *words[2:],
    ]


def test_messages_are_short():
    assert shown("x" * 1000) == repr("x" * 1000)[:120] + "..."
    assert shown(Path("a")) == repr(Path("a"))
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"
