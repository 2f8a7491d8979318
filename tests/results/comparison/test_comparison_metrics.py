"""The names of what is shown of a run."""

import dataclasses

from drobench.results.comparison.metrics import MEASURES, METRICS, QUALITIES
from drobench.results.comparison.targets import COSTS
from drobench.results.record import Iterate


def test_every_quality_but_the_relative_gap_is_a_field_of_an_iterate():
    fields = {field.name for field in dataclasses.fields(Iterate)}
    assert set(QUALITIES) - fields == {"relative_gap"}


def test_what_may_decide_is_every_number_of_an_iterate():
    fields = {field.name for field in dataclasses.fields(Iterate)}
    assert fields - set(MEASURES) == {"feasible", "step", "extra", "others"}


def test_every_cost_of_the_target_is_a_metric():
    assert [name.removesuffix("_to_target") for name in METRICS if name.endswith("_to_target")] == list(COSTS)
    assert len(set(METRICS)) == len(METRICS)
