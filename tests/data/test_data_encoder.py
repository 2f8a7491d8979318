"""The encoder as a value: what becomes of coded rows, and what is read of strangers."""

import json

import numpy as np
import pytest

from drobench.data.dataset import DataError
from drobench.data.encoder import LONGEST, Column, TableEncoder, number_encoder

ENCODER = TableEncoder(
    (
        Column("age", fill=40.0, flagged=True),
        Column("city", "category", ("Oslo", "Rome"), fill=1.0),
        Column("member", "boolean"),
        Column("job", "category", ("cook",), flagged=True),
    ),
    classes=("no", "yes"),
    target="bought",
    missing_words=("", "?"),
    unseen="refuse",
    group="city",
    groups=("Oslo", "Rome"),
)


def test_features_are_named_after_their_columns():
    names = ("age", "age_missing", "city_Oslo", "city_Rome", "member", "job_cook", "job_missing")
    assert ENCODER.feature_names == names


def test_coded_rows_become_features():
    nan = np.nan
    coded = np.array([[20.0, 0.0, 1.0, 0.0], [nan, nan, 0.0, nan], [30.0, -1.0, nan, -1.0]])
    expected = [[20, 0, 1, 0, 1, 1, 0], [40, 1, 0, 1, 0, 0, 1], [30, 0, 0, 0, nan, 0, 0]]
    np.testing.assert_array_equal(ENCODER.expansion().apply(coded), expected)


def test_numbers_are_themselves_to_the_last_bit():
    rows = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_array_equal(number_encoder(["a", "b", "c"]).expansion().apply(rows), rows)


@pytest.mark.parametrize(
    "encoder",
    [
        ENCODER,
        number_encoder(["x"], classes=(1, 0)),
        number_encoder(["x"], classes=(False, True)),
        number_encoder(["x"], classes=(0.25, 0.5, 3.0)),
        number_encoder(["x"], target_scale=100.0),
    ],
)
def test_an_encoder_survives_being_written(encoder):
    read = TableEncoder.from_json(encoder.to_json())
    assert read == encoder
    assert [type(label) for label in read.classes] == [type(label) for label in encoder.classes]


def test_keys_of_later_versions_are_ignored():
    values = {**json.loads(ENCODER.to_json()), "units": ["years"]}
    values["columns"][0]["unit"] = "years"
    assert TableEncoder.from_json(json.dumps(values)) == ENCODER


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": []}, "features"),
        ({"columns": {}}, "list"),
        ({"columns": [3]}, "object"),
        ({"columns": [{"name": 3}]}, "text"),
        ({"columns": [{"name": "a", "kind": "picture"}]}, "one of number"),
        ({"columns": [{"name": "a", "categories": ["x"]}]}, "none for a number"),
        ({"columns": [{"name": "a", "kind": "category", "categories": [1]}]}, "texts"),
        ({"columns": [{"name": "a", "kind": "category", "categories": ["x", "x"]}]}, "distinct"),
        ({"columns": [{"name": "a", "kind": "category", "categories": ["x"], "fill": 1}]}, "position"),
        ({"columns": [{"name": "a", "kind": "category", "categories": ["x"], "fill": 0.5}]}, "position"),
        ({"columns": [{"name": "a", "fill": "0"}]}, "finite number"),
        ({"columns": [{"name": "a", "fill": 10**400}]}, "finite number"),
        ({"columns": [{"name": "a", "flagged": 1}]}, "true or false"),
        ({"classes": ["a"]}, "at least two"),
        ({"classes": ["a", "a"]}, "distinct"),
        ({"classes": ["a", 1]}, "one kind"),
        ({"classes": [["a"], ["b"]]}, "one kind"),
        ({"classes": "ab"}, "list"),
        ({"target": 3}, "text"),
        ({"target_scale": 0}, "above 0"),
        ({"target_scale": True}, "above 0"),
        ({"missing_words": [None]}, "texts"),
        ({"unseen": "guess"}, "zeros or refuse"),
    ],
)
def test_what_is_no_encoder_is_refused(change, words):
    values = {**json.loads(ENCODER.to_json()), **change}
    with pytest.raises(DataError, match=words):
        TableEncoder.from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "{}", '{"columns": [{"name": "a", "fill": NaN}]}', "[" * 100_000])
def test_other_texts_are_refused(text):
    with pytest.raises(DataError, match="Encoder"):
        TableEncoder.from_json(text)


def test_a_text_without_end_is_not_looked_at():
    with pytest.raises(DataError, match=f"at most {LONGEST}"):
        TableEncoder.from_json(" " * (LONGEST + 1))


def test_a_few_words_cannot_stand_for_millions_of_features():
    columns = [{"name": "a", "kind": "category", "categories": [str(k) for k in range(1001)]}] * 1000
    with pytest.raises(DataError, match="features"):
        TableEncoder.from_json(json.dumps({"columns": columns}))


def test_terminal_escapes_of_strangers_do_not_reach_a_message():
    with pytest.raises(DataError) as caught:
        TableEncoder.from_json(json.dumps({"columns": [{"name": "a", "kind": "\x1b[2J"}]}))
    assert "\x1b" not in str(caught.value)
