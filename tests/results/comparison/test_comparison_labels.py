"""Names that tell namesakes apart."""

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from drobench.results.comparison.labels import content_key, distinguishing_labels, flattened


def test_labels_that_look_alike_are_numbered():
    assert distinguishing_labels([("a", {"x": 1}), ("a", {"x": "1"})]) == ["a (x=1)", "a (x=1) #2"]
    assert distinguishing_labels([("a", {"x": 1}), ("a", {})]) == ["a (x=1)", "a"]
    assert distinguishing_labels([("a", {"x": None}), ("a", {"x": True})]) == ["a (x=null)", "a (x=true)"]


def test_nested_settings_are_named_as_on_the_command_line():
    assert flattened({"step": {"size": 0.1, "more": {}}, "batch": 8}) == {"step.size": 0.1, "step.more": {}, "batch": 8}


def test_the_order_of_keys_makes_no_other_content():
    assert content_key({"a": 1, "b": [2, None]}) == content_key({"b": [2, None], "a": 1})
    assert content_key({"a": 1}) != content_key({"a": 1.5})
    assert content_key(numpy.float64(0.5)) == content_key(0.5)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2))), max_size=8)
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_no_two_things_ever_share_a_label(things):
    labels = distinguishing_labels(things)
    assert len(set(labels)) == len(things)
    assert all(label.startswith(name) for label, (name, _) in zip(labels, things, strict=True))
