"""The promises of docs/reliability.md, each with a few cases; `python -m benchmarks.faults` tries many."""

import importlib

import pytest

from benchmarks.faults.__main__ import SCENARIOS

pytestmark = [pytest.mark.faults, pytest.mark.process]

# How many cases, with which seed. What starts sweeps takes seconds for each.
CASES = {
    "kills": (2, 3),
    "plugins": (6, 1),
    "disks": (4, 0),
    "ranks": (1, 0),
    "memory": (40, 0),
    "clocks": (3, 0),
    "kill_points": (4, 1),
    "writers": (5, 0),
    "damage": (40, 2),
    "overrides": (300, 20),
    "bundles": (25, 30),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost_doubled_wrong_in_silence_or_left_behind(name):
    count, seed = CASES[name]
    outcome = importlib.import_module(f"benchmarks.faults.{name}").look(count, seed)
    assert not outcome.findings, "\n\n".join(outcome.findings[:5])
    assert outcome.cases >= min(count, 5)


def test_every_scenario_is_tried():
    assert sorted(CASES) == sorted(SCENARIOS)
