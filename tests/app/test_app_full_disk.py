"""Errors of a disk, told from those of whoever writes to it."""

import errno

import pytest

from drobench.app.full_disk import disk_error, of_the_disk
from drobench.results.store import StoreUnusable


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.EROFS, "read-only"), True),
        (caused(RuntimeError("not written"), OSError(errno.EDQUOT, "quota")), True),
        (StoreUnusable("not to be written"), True),
        (OSError(errno.ENOENT, "not there"), False),
        (OSError("no number"), False),
        (ValueError("anything"), False),
    ],
)
def test_only_a_disk_that_takes_nothing_more_counts(error, expected):
    assert of_the_disk(error) is expected


def test_errors_that_go_in_a_circle_come_to_an_end():
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    assert not of_the_disk(first)


def test_the_message_says_what_to_do():
    said = str(disk_error(OSError(errno.ENOSPC, "No space left on device")))
    assert "No space left on device" in said
    assert "Nothing was recorded" in said
