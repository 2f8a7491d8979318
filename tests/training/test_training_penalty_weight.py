"""The weight of a penalty follows the violation from stage to stage."""

from dataclasses import dataclass

import pytest
import torch

from drobench.training.penalty_weight import adapted_weight


@dataclass
class Asked:
    """An oracle that knows the answer."""

    penalty_weight: float | None
    largest: float

    def largest_surrogate(self, point: torch.Tensor) -> float:
        return self.largest


@pytest.mark.parametrize(
    ("weight", "largest", "expected"),
    [(2.0, 0.06, 4.0), (2.0, 0.0, 2.0), (2.0, -0.06, 1.0), (32.0, 9.0, 32.0), (0.125, -9.0, 0.125)],
)
def test_doubles_where_a_constraint_is_violated_and_halves_where_all_hold(weight, largest, expected):
    assert adapted_weight(Asked(weight, largest), torch.zeros(1), 2.0) == expected


def test_forms_without_penalty_have_none():
    assert adapted_weight(Asked(None, 1.0), torch.zeros(1), None) is None
