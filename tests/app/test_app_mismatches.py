"""How a recorded and a recomputed value are compared."""

import math

import pytest

from drobench.app.mismatches import Mismatch, compared


@pytest.mark.parametrize(
    ("recorded", "recomputed", "tolerance", "same"),
    [
        (1.0, 1.0 + 1e-9, 1e-8, True),
        (1.0, 1.0 + 1e-7, 1e-8, False),
        (1.0, 1.0 + 1e-9, None, False),
        (1e9, 1e9 + 1.0, 1e-8, True),
        (0.0, 1e-9, 1e-8, True),
        (3, 3.0, 1e-8, True),
        (True, 1.0, 1e-8, True),
        (True, False, 1e-8, False),
        (None, 0.0, 1e-8, False),
        (None, math.nan, 1e-8, True),
        (None, math.inf, None, True),
        ("a", "a", 1e-8, True),
        ({"a": [1]}, {"a": [2]}, None, False),
    ],
)
def test_values_are_compared(recorded, recomputed, tolerance, same):
    assert (list(compared("x", recorded, recomputed, tolerance)) == []) is same


def test_a_mismatch_names_both():
    assert str(Mismatch("last.gap", 0.0, 0.5)) == "last.gap: recorded 0.0, found 0.5"
