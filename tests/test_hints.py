"""Hints for misspelt names."""

from drobench.hints import did_you_mean
from drobench.registry import hints


def test_the_nearest_known_name_is_hinted_and_no_other():
    assert did_you_mean("test_r3", ["objective", "test_r2"]) == " Did you mean 'test_r2'?"
    assert did_you_mean("speed", ["objective", "test_r2"]) == ""


def test_plugins_find_the_same_hint_where_it_used_to_be():
    assert hints.did_you_mean is did_you_mean
