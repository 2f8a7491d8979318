"""Hints for misspelt names."""

import pytest

from drobench.registry.hints import did_you_mean

KNOWN = ["gcivr", "civr", "scgd"]


@pytest.mark.parametrize(("word", "hint"), [("gcvir", " Did you mean 'gcivr'?"), ("sgcd", " Did you mean 'scgd'?")])
def test_the_nearest_name_is_suggested(word, hint):
    assert did_you_mean(word, KNOWN) == hint


@pytest.mark.parametrize(("word", "known"), [("quantum", KNOWN), ("gcivr", []), ("", KNOWN)])
def test_where_none_is_near_nothing_is_said(word, known):
    assert did_you_mean(word, known) == ""
