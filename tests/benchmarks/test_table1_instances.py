"""What Table 1 says without a run: the numbers that a state keeps, and the curvature of the smoothed problems."""

import pytest
import torch

from benchmarks.studies.table1.instances import curvatures, numbers_kept, storage, top_curvature
from benchmarks.studies.table1.tables import STORED
from drobench.objective.composite import Composite
from drobench.solver.estimators import Estimates

PARAMETERS = 6  # five features and the intercept


def test_a_tensor_kept_twice_is_counted_once():
    point = torch.zeros(7)
    assert numbers_kept([point, (point, torch.ones(3)), 4.0, "text"]) == 10
    assert numbers_kept(Estimates(*[None] * len(Estimates.__dataclass_fields__))) == 0


@pytest.mark.parametrize(
    ("label", "kept"),
    [
        # Point and two means of n + 1 + m, probabilities and violations of all 2m + 1 constraints.
        ("MidTouch", lambda m, n: 3 * (n + 1 + m) + 2 * (2 * m + 1)),
        # The joint variable, the snapshot, its operator, two means.
        ("SEVR", lambda m, n: 5 * (n + 1 + m)),
        # The joint variable, two means, the order of the rows.
        ("SERR", lambda m, n: 3 * (n + 1 + m) + m),
        # Point, previous point, slope, and the same of the last snapshot; inner values, shifts.
        ("GCIVR, literal (W1)", lambda m, n: 6 * (n + 1 + m) + 4),
    ],
)
def test_what_a_state_keeps_by_hand(label, kept):
    assert storage(STORED[label], 40) == kept(40, PARAMETERS)


def test_the_reduced_form_keeps_nothing_per_sample():
    assert storage(STORED["GCIVR, reduced (W2)"], 16) == storage(STORED["GCIVR, reduced (W2)"], 40)


def test_curvature_of_a_known_function():
    class Quadratic(Composite):
        def __init__(self):
            pass

        def estimate(self, points, rows, shift):
            raise NotImplementedError

        def smooth_gradient(self, point):
            return torch.tensor([1.0, 5.0, -9.0], dtype=torch.float64) * point

    assert top_curvature(Quadratic(), torch.ones(3).double()) == pytest.approx(5.0, rel=1e-6)


def test_literal_curvature_is_inverse_to_the_width():
    """Ten times narrower is ten times steeper, once the narrowest part dominates."""
    wide, narrow = curvatures("literal", 16, (0.01, 0.001))
    assert narrow / wide == pytest.approx(10.0, rel=0.05)
