"""The names of what a comparison shows of a run."""

from drobench.results.comparison.targets import COSTS

QUALITIES = (
    "objective",
    "gap",
    "relative_gap",
    "train_error",
    "validation_error",
    "test_error",
    "train_max_violation",
    "test_max_violation",
)
"""The metrics of an iterate that are shown; in all of them less is better."""

MEASURES = tuple(
    name for name in QUALITIES if name not in ("relative_gap", "train_max_violation", "test_max_violation")
)
"""What may decide between feasible runs that did not reach the target."""

METRICS = (*QUALITIES, *(f"{cost}_to_target" for cost in COSTS), "seconds_total")
"""The columns that summarise one number per run."""
