"""Whatever was done to a bundle, the answer is a verdict or a message, and the memory does not grow with it."""

import sys

import pytest
from mutated_bundles import unanswered

MUTATIONS = 150


@pytest.mark.faults
@pytest.mark.parametrize("seed", [30])
def test_no_mutated_bundle_is_answered_with_a_traceback(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    for name in ("DROBENCH_RESULTS", "DROBENCH_DISABLE_PLUGINS", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    faults = unanswered(seed, MUTATIONS, tmp_path)
    assert not faults, "\n\n".join(faults[:5])
