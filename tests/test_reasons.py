"""Reasons that can be stored and printed, whatever an exception says."""

import json

import pytest

from drobench.reasons import LONGEST, print_traceback, reason_of, tidy


class SilentError(Exception):
    def __str__(self):
        raise RuntimeError("no text today")


def test_a_short_reason_is_left_as_it_is():
    assert reason_of(ValueError("line one\nline two\tü → 一")) == "ValueError: line one\nline two\tü → 一"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\udc80b", "a\\udc80b"), ("\x1b[2Jgone", "\\x1b[2Jgone"), ("a\x00b", "a\\x00b"), ("\u202eback", "\\u202eback")],
)
def test_what_cannot_be_stored_or_would_move_a_cursor_is_spelt_out(text, expected):
    assert tidy(text) == expected
    json.dumps(tidy(text), ensure_ascii=False).encode()


def test_a_long_reason_is_cut_and_says_so():
    found = reason_of(ValueError("x" * 5_000_000))
    assert found.endswith(" ... (cut, 5000012 characters)")
    assert len(found) == LONGEST
    # Nothing more is done to it, wherever it goes.
    assert tidy(found) == found
    assert tidy(tidy("\udc80" * LONGEST)) == tidy("\udc80" * LONGEST)


def test_an_exception_that_cannot_be_printed_has_a_reason_all_the_same(capsys):
    assert reason_of(SilentError()) == "SilentError: (its text cannot be printed)"
    print_traceback(SilentError())
    assert "SilentError" in capsys.readouterr().err


def test_a_printed_traceback_shows_where_and_is_cut_too(capsys):
    def break_down():
        raise ValueError("\udc80" + "x" * 100_000)

    with pytest.raises(ValueError, match="xxx") as raised:
        break_down()
    print_traceback(raised.value)
    said = capsys.readouterr().err
    assert "in break_down" in said
    assert "\\udc80xxx" in said
    assert len(said) < 3 * LONGEST
