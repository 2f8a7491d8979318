"""The parts of a record: what they are called in the file, and that nothing is invented."""

import dataclasses

import pytest

from drobench.results import parts
from drobench.results.fields import Part, storable

OPTIONAL_PARTS = [
    parts.Iterate,
    parts.Iterates,
    parts.OracleCounts,
    parts.Communication,
    parts.Seconds,
    parts.Memory,
]


@pytest.mark.parametrize("kind", OPTIONAL_PARTS)
def test_what_is_not_known_is_null_and_not_zero(kind):
    values = storable(kind())
    assert values
    assert {name for name, value in values.items() if value is not None} <= {"extra"}


@pytest.mark.parametrize("kind", [parts.Component, parts.DatasetComponent, parts.Optimum])
def test_a_part_that_must_be_known_cannot_be_made_of_nothing(kind):
    with pytest.raises(TypeError, match="required keyword"):
        kind()


def test_a_dataset_is_a_component_that_may_be_a_twin():
    dataset = parts.DatasetComponent(name="adult", config={})
    assert isinstance(dataset, parts.Component)
    assert (dataset.twin, dataset.sha256, dataset.rows) == (False, None, None)


def test_the_names_of_the_iterates_are_those_of_the_part():
    fields = [field.name for field in dataclasses.fields(parts.Iterates) if field.name != "others"]
    assert tuple(fields) == parts.ITERATES


def test_no_part_can_be_changed():
    kinds = [kind for kind in vars(parts).values() if isinstance(kind, type) and issubclass(kind, Part)]
    assert len(kinds) >= 10
    with pytest.raises(dataclasses.FrozenInstanceError):
        parts.Seconds().solver = 1.0
    assert all(kind.__dataclass_params__.frozen for kind in kinds)
