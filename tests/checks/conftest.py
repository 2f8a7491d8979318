"""The tiers of the checks themselves, which know no markers: a stranger's pytest would not know them either."""

import pytest

from drobench.checks import Checks

TIERS = {
    "test_two_processes_equal_one": "process",
    "test_import_needs_no_network": "process",
    "test_reaches_the_certified_optimum": "convergence",
    "test_optimum_is_certified": "convergence",
    # These converge nowhere, but take as long: every tensor is watched, every run is made four times.
    "test_precision_and_device_are_those_of_the_start": "convergence",
    "test_a_checkpoint_continues_the_run_bit_for_bit": "convergence",
    "test_measured_rate_is_not_worse_than_the_declared": "convergence",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what starts processes or takes its time, before the expression of `-m` is looked at."""
    for item in items:
        if isinstance(getattr(item, "cls", None), type) and issubclass(item.cls, Checks):
            tier = TIERS.get(item.originalname)
            if tier is not None:
                item.add_marker(tier)
