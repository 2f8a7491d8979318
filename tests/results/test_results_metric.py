"""What is known of a metric besides its value."""

import json

import pytest
from result_samples import make_record

from drobench.errors import SettingError
from drobench.results.metric import Metric, is_described, stored_metrics, without_split
from drobench.results.record import DamagedRecord, Record

METRICS = (Metric("r2", better="more", unit="share of variance"), Metric("rmse", unit="target"))


def test_a_metric_says_which_way_is_better_and_less_unless_told():
    assert Metric("rmse") == Metric("rmse", "less", "")
    with pytest.raises(SettingError, match=r"Metric\.better must be one of less, more; found 'higher'"):
        Metric("r2", better="higher")


@pytest.mark.parametrize("name", ["", "two words", "test_r2", "a-b"])
def test_a_name_is_one_word_without_a_split(name):
    with pytest.raises(SettingError, match="without a split"):
        Metric(name)


def test_a_record_keeps_what_was_said():
    record = make_record(metrics=stored_metrics(METRICS))
    read = Record.from_json(record.to_json())
    assert read.metrics == {
        "r2": {"better": "more", "unit": "share of variance"},
        "rmse": {"better": "less", "unit": "target"},
    }
    assert all(is_described(value) for value in read.metrics.values())


def test_an_older_record_says_nothing():
    payload = json.loads(make_record().to_json())
    del payload["metrics"]
    assert Record.from_mapping(payload).metrics == {}


@pytest.mark.parametrize(
    "value", ["more", {"better": "up", "unit": ""}, {"better": "less"}, {"better": [], "unit": ""}]
)
def test_a_record_that_says_something_else_is_damaged(value):
    payload = json.loads(make_record().to_json()) | {"metrics": {"r2": value}}
    with pytest.raises(DamagedRecord, match="metrics"):
        Record.from_mapping(payload)


def test_the_split_in_front_of_a_name_is_no_part_of_it():
    assert without_split("test_r2") == without_split("validation_r2") == "r2"
    assert without_split("tested") == "tested"
