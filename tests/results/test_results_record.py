import dataclasses
import hashlib
import json
import math
import pickle
import subprocess
import sys

import numpy
import pytest
from result_samples import make_record

from drobench.errors import DrobenchError
from drobench.results.record import (
    ITERATE_FIELDS,
    SCHEMA,
    DamagedRecord,
    Iterate,
    Iterates,
    NewerSchema,
    Outcome,
    Record,
    Status,
    canonical_json,
    content_id,
    short_id,
)


def damaged_by(change):
    """The error of reading a record after `change` has been applied to its JSON."""
    payload = make_record(iterate=Iterate(objective=1.0), optimum=0.5).to_mapping()
    change(payload)
    with pytest.raises(DamagedRecord) as caught:
        Record.from_json(json.dumps(payload), "somewhere/record.json")
    return caught.value


def test_a_record_survives_the_round_trip():
    record = make_record(
        status=Status.CONVERGED,
        iterate=Iterate(objective=0.1 + 0.2, gap=1e-300, feasible=True, step=7, extra={"recall": 0.5}),
        optimum=0.3,
        reason="reached the target",
        reformulation={"alpha": 2},
    )
    again = Record.from_json(record.to_json())
    assert again == record
    assert again.iterates.last.objective == 0.1 + 0.2
    assert again.to_json() == record.to_json()


def test_the_json_has_the_fields_of_the_contract():
    payload = json.loads(make_record(iterate=Iterate()).to_json())
    assert payload["schema"] == SCHEMA == 1
    contract = {"run_id", "status", "reason", "seed", "started_at", "solver", "problem", "dataset", "model", "budget"}
    contract |= {"trainer", "iterates", "optimum", "oracle", "communication", "seconds", "memory", "environment"}
    assert contract <= set(payload)
    assert set(payload["solver"]) == {"name", "config", "distribution", "version"}
    assert set(payload["dataset"]) == {"name", "config", "distribution", "version", "sha256", "rows", "twin"}
    assert set(payload["iterates"]) == {"last", "average", "best_feasible"}
    assert list(payload["iterates"]["last"]) == [*ITERATE_FIELDS, "extra"]
    assert payload["iterates"]["average"] is None
    counters = {"inner_values", "inner_jacobians", "loss_gradients", "constraint_checks", "projections", "passes"}
    assert set(payload["oracle"]) == counters | {"hessian_rows", "hessian_products"}
    assert set(payload["communication"]) == {"rounds", "bytes"}
    assert set(payload["seconds"]) == {"solver", "evaluation", "setup", "total"}
    assert set(payload["memory"]) == {"peak_bytes"}


def test_the_iterate_fields_are_those_of_the_class():
    names = [field.name for field in dataclasses.fields(Iterate) if field.name not in ("extra", "others")]
    assert sorted(names) == sorted(ITERATE_FIELDS)


def test_the_statuses_are_a_closed_list():
    assert set(Status) == {"converged", "budget_spent", "diverged", "non_finite", "failed", "skipped"}


def test_numbers_that_are_not_finite_become_null():
    point = Iterate(objective=math.nan, gap=math.inf, extra={"loss": numpy.float32(-math.inf)})
    record = make_record(iterate=point, config={"cap": math.inf, "list": [1.0, math.nan]})
    text = record.to_json()
    payload = json.loads(text, parse_constant=pytest.fail)
    assert payload["iterates"]["last"]["objective"] is None
    assert payload["iterates"]["last"]["gap"] is None
    assert payload["iterates"]["last"]["extra"] == {"loss": None}
    assert payload["solver"]["config"] == {"cap": None, "list": [1.0, None]}
    assert Record.from_json(text).iterates.last.objective is None


def test_numpy_numbers_are_stored_as_plain_ones():
    point = Iterate(objective=numpy.float32(0.5), feasible=numpy.bool_(True), step=numpy.int64(3))
    again = Record.from_json(make_record(iterate=point).to_json())
    assert (again.iterates.last.objective, again.iterates.last.feasible, again.iterates.last.step) == (0.5, True, 3)


def test_unknown_fields_are_kept_at_every_depth():
    payload = make_record(iterate=Iterate(objective=1.0)).to_mapping()
    payload["mood"] = {"good": True}
    payload["solver"]["colour"] = "red"
    payload["iterates"]["last"]["new_metric"] = 3.5
    payload["environment"]["container"] = None
    record = Record.from_json(json.dumps(payload))
    assert record.others == {"mood": {"good": True}}
    assert json.loads(record.to_json()) == payload


def test_a_missing_field_is_named():
    error = damaged_by(lambda payload: payload["oracle"].pop("passes"))
    assert error.field == "oracle.passes"
    assert "missing" in error.found
    for word in ("somewhere", "record.json", "`oracle.passes`", "a number or null"):
        assert word in str(error)


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (("seed",), "3", "a whole number"),
        (("seed",), True, "a whole number"),
        (("seed",), None, "a whole number"),
        (("status",), "fine", "one of converged, budget_spent, diverged, non_finite, failed, skipped"),
        (("model",), [], "an object"),
        (("iterates", "last"), 5, "an object or null"),
        (("iterates", "last", "objective"), "low", "a number or null"),
        (("iterates", "last", "objective"), True, "a number or null"),
        (("iterates", "last", "feasible"), 1, "true or false or null"),
        (("iterates", "last", "extra"), 1, "an object"),
        (("optimum", "value"), None, "a number"),
        (("dataset", "twin"), "no", "true or false"),
        (("run_id",), "../../home", "64 hexadecimal digits"),
        (("started_at",), "yesterday", "an ISO 8601 time"),
        (("schema",), "1", "a whole number of at least 1"),
        (("schema",), 0, "a whole number of at least 1"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(place, value, expected):
    def change(payload):
        for name in place[:-1]:
            payload = payload[name]
        payload[place[-1]] = value

    error = damaged_by(change)
    assert error.field == ".".join(place)
    assert error.expected.startswith(expected)
    assert error.found in (repr(value), "null")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": NaN}', '{"seed": 1}', "[" * 100_000])
def test_what_is_no_record_is_damaged(text):
    with pytest.raises(DamagedRecord):
        Record.from_json(text)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_record_that_is_not_strict_json_is_damaged(constant):
    text = make_record(iterate=Iterate(objective=1.25)).to_json()
    assert text.count("1.25") == 1
    with pytest.raises(DamagedRecord, match="strict JSON"):
        Record.from_json(text.replace("1.25", constant))


def test_a_newer_schema_is_not_damaged_but_asks_for_an_upgrade():
    with pytest.raises(NewerSchema, match="Upgrade drobench") as caught:
        Record.from_json(json.dumps({"schema": SCHEMA + 1, "everything": "else"}), "there/record.json")
    assert "there" in str(caught.value)
    assert not isinstance(caught.value, DamagedRecord)


def test_the_errors_are_for_people_and_survive_pickling():
    for error in (DamagedRecord("file", "field", "this", "that"), NewerSchema("file", 9)):
        assert isinstance(error, DrobenchError)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_content_id_does_not_depend_on_the_order_of_keys():
    one = {"seed": 3, "solver": {"name": "alpha", "step": 0.1}}
    other = {"solver": {"step": 0.1, "name": "alpha"}, "seed": 3}
    assert content_id(one) == content_id(other)
    assert content_id(one) != content_id({**one, "seed": 4})
    assert content_id({"step": 0.1}) != content_id({"step": 0.1 + 1e-17 + 2e-17})


def test_the_content_id_is_the_sha256_of_the_canonical_json():
    # printf '{"a":[1,0.1,null,true],"b":"\u00e9"}' | sha256sum, with the escape left as it stands
    assert canonical_json({"b": "é", "a": (1, 0.1, None, True)}) == '{"a":[1,0.1,null,true],"b":"\\u00e9"}'
    expected = hashlib.sha256(b'{"seed":3}').hexdigest()
    assert content_id({"seed": 3}) == expected
    assert len(content_id({})) == 64
    assert short_id(content_id({"seed": 3})) == expected[:12]


@pytest.mark.parametrize(
    "value",
    [{"a": math.nan}, {"a": [math.inf]}, {1: "a"}, {"a": {None: 1}}, {"a": object()}, {"a": {1, 2}}, {"a": b"x"}],
)
def test_what_has_no_exact_json_form_is_refused(value):
    with pytest.raises(DrobenchError, match="run id"):
        canonical_json(value)


def test_the_started_time_without_an_offset_is_utc():
    naive, aware = make_record(started_at="2024-05-01T12:00:00"), make_record(started_at="2024-05-01T14:00:00+02:00")
    assert naive.started == aware.started


@pytest.mark.process
def test_reading_a_record_loads_neither_torch_nor_polars():
    script = "import sys, drobench.results.record; print([m for m in ('torch', 'polars', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_iterates_are_kept_apart():
    record = dataclasses.replace(
        make_record(), iterates=Iterates(last=Iterate(gap=1.0), average=Iterate(gap=2.0), best_feasible=None)
    )
    again = Record.from_json(record.to_json())
    assert (again.iterates.last.gap, again.iterates.average.gap) == (1.0, 2.0)
    assert again.iterates.best_feasible is None


def test_the_old_name_of_the_content_id_works_and_says_so():
    from drobench.results import record

    with pytest.warns(DeprecationWarning, match=r"record\.run_id is now drobench\.results\.record\.content_id"):
        assert record.run_id is content_id
    with pytest.raises(AttributeError, match="no attribute 'id_of_run'"):
        _ = record.id_of_run


def test_the_reason_why_there_is_no_optimum_is_a_field_that_older_files_lack():
    payload = make_record().to_mapping()
    assert payload["optimum_reason"] is None
    del payload["optimum_reason"]
    assert Record.from_mapping(payload).optimum_reason is None
    payload["optimum_reason"] = "the problem is not convex"
    record = Record.from_mapping(payload)
    assert (record.optimum_reason, record.others) == ("the problem is not convex", {})
    payload["optimum_reason"] = 3
    with pytest.raises(DamagedRecord, match="optimum_reason"):
        Record.from_mapping(payload)


@pytest.mark.parametrize("as_escapes", [True, False])
def test_texts_of_strangers_are_harmless_once_they_are_read(as_escapes):
    payload = make_record().to_mapping()
    payload["reason"] = "\x1b[2Kall is well \u202e"
    payload["model"] = {"na\x9bme": ["\x00", {"deep": "\x7f"}]}
    payload["route"] = ["\x1b]0;title\x07"]
    record = Record.from_json(json.dumps(payload, ensure_ascii=as_escapes))
    assert record.reason == "\\x1b[2Kall is well \\u202e"
    assert record.model == {"na\\x9bme": ["\\x00", {"deep": "\\x7f"}]}
    assert record.others["route"] == ["\\x1b]0;title\\x07"]


def test_half_a_pair_can_be_printed_and_encoded():
    payload = make_record().to_mapping() | {"reason": "\ud83d alone, \U0001f600 together"}
    record = Record.from_json(json.dumps(payload))
    assert record.reason == "\\ud83d alone, \U0001f600 together"
    assert record.reason.encode()
    assert dataclasses.replace(record, reason="\ud800").to_json().encode()


@pytest.mark.parametrize("part", ["solver", "problem", "dataset"])
@pytest.mark.parametrize("name", ["", "Alpha", "a b", "a-b", "\x1b[2J", "a\n", "../x", "=cmd()", "1a", "ä"])
def test_names_are_those_that_plugins_can_have(part, name):
    error = damaged_by(lambda payload: payload[part].update(name=name))
    assert (error.field, error.expected) == (f"{part}.name", "a name of lower-case letters, digits and _")


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00+14:00", "1969-12-31", "9999-12-31T23:59:59-14:00", "10000-01-01"]
)
def test_times_that_cannot_be_compared_are_damaged(moment):
    assert damaged_by(lambda payload: payload.update(started_at=moment)).field == "started_at"


@pytest.mark.parametrize("route", [[1], "kl", {"a": 1}, [["kl"]], 3])
def test_a_route_is_a_list_of_texts(route):
    assert damaged_by(lambda payload: payload.update(route=route)).field == "route"


@pytest.mark.parametrize(("levels", "good"), [(60, True), (70, False), (900, False), (100_000, False)])
def test_nesting_has_a_limit(levels, good):
    text = make_record().to_json().replace('"model": {', '"model": {"deep": ' + "[" * levels + "]" * levels + ",", 1)
    if good:
        assert Record.from_json(text).to_json()
        return
    with pytest.raises(DamagedRecord):
        Record.from_json(text)


def test_the_outcome_is_a_field_of_a_closed_list_that_older_files_lack():
    payload = make_record(outcome=Outcome.OK).to_mapping()
    assert payload["outcome"] == "ok"
    del payload["outcome"]
    assert Record.from_mapping(payload).outcome is None
    payload["outcome"] = "worse_than_start"
    record = Record.from_mapping(payload)
    assert (record.outcome, record.others) == (Outcome.WORSE_THAN_START, {})
    payload["outcome"] = "splendid"
    with pytest.raises(
        DamagedRecord, match="`outcome` should be one of ok, worse_than_start, start_is_optimal or null"
    ):
        Record.from_mapping(payload)


@pytest.mark.parametrize("place", ["code", "code_parts", "files"])
def test_checksums_are_texts(place):
    assert damaged_by(lambda payload: payload.update({place: {"drobench": ["a"]}})).field == place
