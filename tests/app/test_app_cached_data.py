"""What is said of the data in the cache and of those who publish them."""

import hashlib

import pytest

from drobench.app.cached_data import held_of, is_cached, origin_of, verdict_on
from drobench.data.cache import RemoteFile, State
from drobench.data.dataset import DatasetConfig
from drobench.registry import DatasetEntry
from drobench.registry.entries import Intake

CONTENT = b"1,2,3\n"


def entry(**fields):
    return DatasetEntry(name="guest", summary="A guest.", config=DatasetConfig, factory=lambda config: None, **fields)


def file(*urls):
    return RemoteFile("guest.csv", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), urls)


def intake(held=State.VERIFIED):
    return Intake("ask the publisher", lambda source: [], lambda thorough: State.DAMAGED if thorough else held)


@pytest.mark.parametrize(
    ("fields", "origin"),
    [
        ({}, "nothing to fetch"),
        ({"files": (file("http://one.org/a", "https://two.org/b"), file("http://one.org/c"))}, "one.org, two.org"),
        ({"intake": intake()}, "its publisher, by hand"),
    ],
)
def test_the_origin_is_the_servers_or_the_publisher(fields, origin):
    assert origin_of(entry(**fields)) == origin


def test_files_are_looked_for_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DROBENCH_DATA", str(tmp_path))
    found = entry(files=(file("http://one.org/a"),))
    assert held_of(found, thorough=False) is State.ABSENT
    assert held_of(entry(), thorough=True) is None


def test_who_keeps_data_by_hand_is_asked_as_thoroughly_as_wanted():
    found = entry(intake=intake())
    assert held_of(found, thorough=False) is State.VERIFIED
    assert held_of(found, thorough=True) is State.DAMAGED


@pytest.mark.parametrize(
    ("held", "cached", "verdict", "verdict_by_hand"),
    [
        (None, "-", "-", "-"),
        (State.ABSENT, "no", "-", "-"),
        (State.VERIFIED, "yes", "yes", "sizes only"),
        (State.DAMAGED, "yes", "DAMAGED", "DAMAGED"),
    ],
)
def test_the_words_for_each_state(held, cached, verdict, verdict_by_hand):
    assert is_cached(held) == cached
    assert verdict_on(entry(), held) == verdict
    assert verdict_on(entry(intake=intake()), held) == verdict_by_hand
