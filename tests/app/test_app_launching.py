"""What ranks are told, and what is found out when they fail; that they do start is shown in tests/distributed."""

import json
import signal
import sys
import time

import pytest

from drobench.app.launching import (
    RankFailed,
    _killed,
    failures_noted,
    first_failure,
    forget_failures,
    rank_environment,
    reference_from_dict,
    reference_to_dict,
)
from drobench.app.optimum import Reference
from drobench.results.record import Optimum


def test_ranks_hear_nothing_of_other_launchers_and_get_the_threads_of_the_run():
    inherited = {"PATH": "/bin", "RANK": "3", "MASTER_ADDR": "x", "TORCHELASTIC_RUN_ID": "y", "OMP_NUM_THREADS": "64"}
    found = rank_environment(inherited, 2)
    assert found == {"PATH": "/bin", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}


@pytest.mark.parametrize(
    "reference",
    [Reference(None, "not convex"), Reference(Optimum(value=0.5, method="exact", certificate={"gap": 1e-9}))],
)
def test_what_is_known_of_the_optimum_reaches_the_ranks(reference):
    assert reference_from_dict(json.loads(json.dumps(reference_to_dict(reference)))) == reference


def fail(folder, rank, reason):
    with pytest.raises(ArithmeticError), failures_noted(folder, rank):
        raise ArithmeticError(reason)


def test_the_first_failure_is_the_reason(tmp_path):
    folder = tmp_path / "work"
    assert first_failure(folder) is None
    fail(folder, 1, "mine")
    time.sleep(0.01)
    fail(folder, 0, "because the other is gone")
    assert first_failure(folder) == "rank 1: ArithmeticError: mine"
    forget_failures(folder)
    assert first_failure(folder) is None


def test_a_rank_that_ends_well_notes_nothing(tmp_path):
    with failures_noted(tmp_path, 0):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([(0, 1, 10.0), (1, -signal.SIGKILL, 10.5)], "rank 1 was killed by signal 9 (SIGKILL)"),
        # Sent by the launcher, once the time of the others was up.
        ([(0, 1, 10.0), (1, -signal.SIGKILL, 20.0)], None),
        ([(0, 1, 10.0), (1, -signal.SIGTERM, 10.5)], None),
    ],
)
def test_a_killed_rank_is_told_from_those_that_end_because_of_it(tmp_path, ends, reason):
    file = tmp_path / "ends.json"
    assert _killed(file) is None
    file.write_text(json.dumps([{"rank": rank, "code": code, "time": end} for rank, code, end in ends]))
    assert _killed(file) == reason


def test_a_rank_that_tries_to_end_the_program_has_failed(tmp_path):
    with pytest.raises(RankFailed, match="tried to end"), failures_noted(tmp_path, 1):
        sys.exit(0)
    assert first_failure(tmp_path) == f"rank 1: `{__name__}` tried to end the program (SystemExit: 0)"


def test_the_reason_of_a_rank_can_be_stored_and_read(tmp_path):
    fail(tmp_path, 0, "\udc80" + "x" * 100_000)
    found = first_failure(tmp_path)
    assert found.startswith("rank 0: ArithmeticError: \\udc80xxx")
    assert len(found) < 4100
