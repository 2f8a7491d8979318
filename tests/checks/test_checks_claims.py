"""What a solver's entry may claim about itself."""

import pytest
import solver_subjects as subjects

from drobench.registry import EntryError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("goal_gap", 0.0),
        ("goal_passes", float("inf")),
        ("no_goal", "two\nlines"),
        ("rate", "quadratic"),
        ("rate", -1.0),
        ("rate", True),
        ("calls_per_step", 8),
    ],
)
def test_an_impossible_claim_is_refused_by_name(field, value):
    with pytest.raises(EntryError, match=f"SolverEntry 'descent': `{field}` must be"):
        subjects.entry(**{field: value})


@pytest.mark.parametrize("rate", [None, "linear", 0.5, 2])
def test_rates_are_numbers_or_linear(rate):
    assert subjects.entry(rate=rate).rate == rate
