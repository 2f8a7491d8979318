"""Code of a plugin that tries to end the program."""

import os
import sys

import pytest

from drobench.registry.exits import EndedAtOnce, attempt_to_end, exits_raise, way_to_end


def test_an_immediate_exit_raises_and_works_again_afterwards():
    before = os._exit
    with pytest.raises(EndedAtOnce) as ended, exits_raise():
        os._exit(0)
    assert attempt_to_end(ended.value) == f"`{__name__}` tried to end the program (os._exit: 0)"
    assert os._exit is before


def test_an_exit_is_told_with_its_module_and_its_code():
    with pytest.raises(SystemExit) as ended:
        sys.exit("good\x1b[2Jbye")
    assert attempt_to_end(ended.value) == f"`{__name__}` tried to end the program (SystemExit: good\\x1b[2Jbye)"


def test_blocks_within_blocks_are_left_one_by_one():
    before = os._exit
    with exits_raise():
        outer = os._exit
        with pytest.raises(EndedAtOnce), exits_raise():
            os._exit(1)
        assert os._exit is outer
    assert os._exit is before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_was_forked_meanwhile_may_end_at_once():
    with exits_raise(), exits_raise():
        child = os.fork()
        if child == 0:
            os._exit(7)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_the_way_is_named():
    assert way_to_end(SystemExit(3)) == "SystemExit: 3"
    assert way_to_end(EndedAtOnce(0)) == "os._exit: 0"
