"""Any record survives the way through JSON; any damage to one is named, and nothing else is ever raised."""

import dataclasses
import json
import math
from datetime import datetime
from enum import StrEnum

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from result_samples import make_record

from drobench.harmless import PLUGIN_NAME, harmless
from drobench.results.fields import (
    OPTIONAL,
    DamagedRecord,
    Part,
    decode,
    describe,
    is_deeper_than,
    known_fields,
    storable,
)
from drobench.results.record import (
    Communication,
    Component,
    DatasetComponent,
    Environment,
    Iterate,
    Iterates,
    Memory,
    NewerSchema,
    Optimum,
    OracleCounts,
    Record,
    Seconds,
    Status,
)

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=25)


def texts(longest):
    """Texts as they are written: what was hidden in them is visible there."""
    return st.text(st.characters(codec="utf-8"), max_size=longest).map(harmless)


# A name that no part has, so that what is generated as unknown stays unknown.
NAMES = texts(8).map("x {}".format)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**63), 2**63)
PLAIN = st.none() | st.booleans() | WHOLE | NUMBERS | texts(8)
JSON_VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(NAMES, JSON_VALUES, max_size=3)
TEXTS = texts(12)
OF_TYPES = {str: TEXTS, int: WHOLE, float: NUMBERS, bool: st.booleans()}


def parts(kind, **chosen):
    """Any part whose optional fields are plain: the annotation says of which type each one is."""
    hints = {field.name: field.type for field in dataclasses.fields(kind)}
    fields = {
        name: st.none() | OF_TYPES[found]
        for name, hint in hints.items()
        for found in OF_TYPES
        if hint == found | None and name not in chosen
    }
    return st.builds(kind, **fields, **chosen, others=OBJECTS)


ITERATES = st.none() | parts(Iterate, extra=OBJECTS)
COMPONENTS = {"name": st.from_regex(PLUGIN_NAME, fullmatch=True), "config": OBJECTS}
MOMENTS = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9998, 12, 31))
RECORDS = parts(
    Record,
    run_id=st.text("0123456789abcdef", min_size=64, max_size=64),
    status=st.sampled_from(Status),
    seed=WHOLE,
    started_at=MOMENTS.map(lambda moment: moment.isoformat()),
    solver=parts(Component, **COMPONENTS),
    problem=parts(Component, **COMPONENTS),
    dataset=parts(DatasetComponent, **COMPONENTS, twin=st.booleans()),
    model=OBJECTS,
    budget=OBJECTS,
    trainer=OBJECTS,
    reformulation=OBJECTS,
    iterates=parts(Iterates, last=ITERATES, average=ITERATES, best_feasible=ITERATES),
    optimum=st.none() | parts(Optimum, value=NUMBERS, method=TEXTS, certificate=JSON_VALUES),
    oracle=parts(OracleCounts),
    communication=parts(Communication),
    seconds=parts(Seconds),
    memory=parts(Memory),
    environment=parts(Environment, versions=OBJECTS, hardware=JSON_VALUES),
)


@given(RECORDS)
@REPEATABLE
def test_any_record_survives_the_way_through_json(record):
    text = record.to_json()
    again = Record.from_json(text)
    assert again == record
    assert again.to_json() == text


def places_in(value, path=()):
    """The path of everything in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from places_in(item, (*path, name))


SOUND = dataclasses.replace(
    make_record(iterate=Iterate(objective=1.0, feasible=True, step=3), optimum=0.5), reason="it ended"
).to_mapping()
PLACES = [path for path in places_in(SOUND) if path]


def read(text):
    """The record, or one of the two errors that may be raised; any other ends the test."""
    try:
        return Record.from_json(text)
    except (DamagedRecord, NewerSchema) as error:
        return error


@given(st.sampled_from(PLACES), JSON_VALUES, st.booleans())
@settings(derandomize=True, deadline=None, max_examples=200)
def test_a_value_exchanged_or_missing_anywhere_is_read_or_named(path, value, remove):
    payload = json.loads(json.dumps(SOUND))
    inner = payload
    for name in path[:-1]:
        inner = inner[name]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    found = read(json.dumps(payload))
    if isinstance(found, Record):
        assert Record.from_json(found.to_json()) == found
    elif isinstance(found, NewerSchema):
        assert path == ("schema",)
    else:
        place = ".".join(path)
        assert found.field == place or found.field.startswith(f"{place}."), "the damage is named where it is"


@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_a_text_that_is_cut_or_overwritten_is_damaged_or_still_a_record(data):
    text = json.dumps(SOUND)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    found = read(text[:start] + data.draw(st.text(st.characters(codec="utf-8"), max_size=6)) + text[end:])
    assert not isinstance(found, Record) or Record.from_json(found.to_json()) == found
    assert not isinstance(found, DamagedRecord) or "Repeat the run to replace it." in str(found)


@pytest.mark.parametrize("digits", [400, 5000], ids=["more than a float holds", "more than Python converts"])
def test_a_number_that_is_far_too_long_is_damage_too(digits):
    text = json.dumps(SOUND)
    assert text.count('"objective": 1.0') == 1
    assert isinstance(read(text.replace('"objective": 1.0', f'"objective": {"9" * digits}')), DamagedRecord)


class Colour(StrEnum):
    RED = "red"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pot(Part):
    """A part with a field of every kind."""

    label: str
    size: float = 1.0
    colour: Colour | None = None
    lid: dict[str, int] = dataclasses.field(default_factory=dict, metadata=OPTIONAL)


def test_a_whole_number_is_a_number_and_a_truth_is_none():
    found = decode(Pot, {"label": "a", "size": 2, "colour": "red", "more": [1]}, "pot.json")
    assert found == Pot(label="a", size=2.0, colour=Colour.RED, others={"more": [1]})
    assert isinstance(found.size, float)
    with pytest.raises(DamagedRecord, match="field `size` should be a number; found True"):
        decode(Pot, {"label": "a", "size": True, "colour": None}, "pot.json")


@pytest.mark.parametrize(
    ("payload", "field", "expected"),
    [
        ({"size": 1.0, "colour": None}, "label", "text"),
        ({"label": "a", "size": 1.0, "colour": "blue"}, "colour", "one of red or null"),
        ({"label": "a", "size": 1.0, "colour": None, "lid": 3}, "lid", "an object"),
        ([], None, "an object"),
    ],
)
def test_what_does_not_fit_is_named(payload, field, expected):
    with pytest.raises(DamagedRecord) as caught:
        decode(Pot, payload, "pot.json")
    assert (caught.value.field, caught.value.expected) == (field, expected)


def test_within_another_part_the_field_has_a_dotted_name():
    with pytest.raises(DamagedRecord, match=r"`kitchen\.label`"):
        decode(Pot, {"label": 1, "size": 1.0, "colour": None}, "pot.json", "kitchen")


def test_unknown_fields_never_hide_known_ones():
    assert storable(Pot(label="a", others={"label": "b", "more": 1})) == {
        **{"label": "a", "size": 1.0, "colour": None, "lid": {}},
        "more": 1,
    }
    assert list(known_fields(Pot)) == ["label", "size", "colour", "lid"]


def test_only_plain_types_are_stored():
    value = {"a": numpy.float32(0.5), "b": (Colour.RED, math.nan), "c": numpy.bool_(True)}
    assert storable(value) == {"a": 0.5, "b": ["red", None], "c": True}
    assert type(storable(value)["b"][0]) is str


def test_what_was_found_is_described_briefly():
    assert describe(None) == "null"
    assert len(describe("x" * 1000)) < 50


@pytest.mark.parametrize(("value", "levels"), [(3, 0), ([1], 1), ([[1]], 2), ({"a": [{"b": 1}], "c": 2}, 3)])
def test_levels_are_lists_and_objects_within_each_other(value, levels):
    assert not is_deeper_than(value, levels)
    if levels:
        assert is_deeper_than(value, levels - 1)


def test_what_is_written_cannot_be_obeyed():
    assert storable({"\x1b[2K": ["\ud800", ("\u202e",)]}) == {"\\x1b[2K": ["\\ud800", ["\\u202e"]]}
