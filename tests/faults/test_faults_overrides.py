"""Whatever is typed or written into a sweep file, the answer is a configuration or a message."""

import sys

import pytest
from fuzzed_overrides import unanswered

CASES = 1500


@pytest.mark.faults
@pytest.mark.parametrize("seed", [20])
def test_no_override_sweep_file_or_command_line_is_answered_with_a_traceback(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    for name in ("DROBENCH_RESULTS", "DROBENCH_DISABLE_PLUGINS", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    # Commands set it for Hydra.
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    faults = unanswered(seed, CASES, tmp_path)
    assert not faults, "\n\n".join(faults[:5])
