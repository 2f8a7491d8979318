"""Records with their curves, for the tests of this folder."""

import pytest
from comparison_samples import Runs


@pytest.fixture
def runs():
    return Runs()
