"""What looks for faults finds them where there are some."""

import os
import random
import subprocess
import sys
import time

import pytest
from careless import CARELESS

from benchmarks.faults.damage import damaged
from benchmarks.faults.forking import RAISED, forked, in_fresh_process
from benchmarks.faults.kill_points import find
from benchmarks.faults.processes import Ended, Family
from benchmarks.faults.small import objective_of, store_run

pytestmark = [pytest.mark.faults, pytest.mark.process]


def test_a_file_that_is_overwritten_in_place_is_found():
    outcome = in_fresh_process(find, [CARELESS], 100, 0)
    assert outcome.cases >= 3
    # Killed before anything was written it is as it was; between opening and writing it is empty.
    assert outcome.findings
    assert all("overwrite, point" in finding for finding in outcome.findings)
    assert any("found ''" in finding for finding in outcome.findings)


def test_what_a_command_leaves_behind_is_found_whatever_it_calls_itself_and_ended():
    with Family() as family:
        words = "import os, time; os.setsid(); time.sleep(600)"
        process = subprocess.Popen([sys.executable, "-c", words], env=family.variables)
        (left,) = family.left_behind(seconds=0.5)
        assert "os.setsid" in left
        assert process.wait(10) == -9
        assert family.left_behind(seconds=0.0) == []
    assert not family.folder.exists()


def test_a_command_is_started_in_its_folder_and_its_end_is_seen():
    with Family() as family:
        ended = family.run("show", "no_such_run", "--results", "nowhere")
    assert ended.code == 2
    assert ended.troubles("show") == []


@pytest.mark.parametrize(
    ("ended", "mentioned"),
    [
        (Ended(None, ""), "did not end"),
        (Ended(1, "Traceback (most recent call last):\n  boom"), "a traceback in the terminal"),
    ],
)
def test_what_no_user_should_see_is_found(ended, mentioned):
    (finding,) = ended.troubles("it")
    assert mentioned in finding


def test_a_child_says_how_it_ended():
    assert in_fresh_process(ways_to_end) == [(0, 3), (5, None), (-9, None), (RAISED, None), (None, None)]


def ways_to_end():
    ways = (
        lambda: 3,
        lambda: sys.exit(5),
        lambda: os.kill(os.getpid(), 9),
        lambda: 1 / 0,
        lambda: time.sleep(60),
    )
    ends = [forked(way, seconds=0.3) for way in ways]
    assert "ZeroDivisionError" in ends[3].text
    return [(end.code, end.value) for end in ends]


def test_files_of_different_runs_in_one_folder_are_found(tmp_path):
    first, second = (store_run(tmp_path / name, "one", objective=value) for name, value in (("a", 1.0), ("b", 2.0)))
    assert objective_of(tmp_path / "a" / first) == 1.0
    (tmp_path / "a" / first / "config.yaml").write_bytes((tmp_path / "b" / second / "config.yaml").read_bytes())
    with pytest.raises(Exception, match=r"different runs|was written"):
        objective_of(tmp_path / "a" / first)


def test_damage_is_drawn_from_the_seed_and_mostly_changes_something():
    content = bytes(range(48, 58)) * 20
    drawn = [damaged(content, random.Random(seed)) for seed in range(50)]
    assert drawn == [damaged(content, random.Random(seed)) for seed in range(50)]
    assert sum(one != content for one in drawn) > 35
    assert len({len(one) for one in drawn}) > 5
