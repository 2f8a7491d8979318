"""Texts of strangers: what a terminal would obey becomes visible, everything else stays as it is."""

import json
import sys
import unicodedata

import pytest

from drobench.harmless import harmless, may_harm, on_one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2K\x1b[1Aall is well", "\\x1b[2K\\x1b[1Aall is well"),
        ("wrong\rright", "wrong\\x0dright"),
        ("a\x00b\x07c\x08d\x7fe", "a\\x00b\\x07c\\x08d\\x7fe"),
        ("\x9b2K", "\\x9b2K"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800 alone", "\\ud800 alone"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("größer als 1e-3, ∑ 日本 \U0001f600", "größer als 1e-3, ∑ 日本 \U0001f600"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(text, shown):
    assert harmless(text) == shown
    assert harmless(shown) == shown


def test_no_control_character_of_any_kind_is_left():
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    left = {character for character in harmless(everything) if unicodedata.category(character) in ("Cc", "Cs")}
    assert left == {"\n", "\t"}
    harmless(everything).encode()
    turning = {c for c in harmless(everything) if unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF")}
    assert turning == set()


@pytest.mark.parametrize("as_escapes", [True, False])
def test_the_quick_look_at_json_misses_nothing(as_escapes):
    for code in range(0x10000):
        text = chr(code)
        if harmless(text) != text:
            assert may_harm(json.dumps({"reason": text}, ensure_ascii=as_escapes)), hex(code)
    assert may_harm('{"reason": "\\u001B"}')


def test_the_quick_look_lets_ordinary_records_pass():
    assert not may_harm(json.dumps({"reason": "größer\nals\t1 ∑", "path": 'C:"\\new'}))


def test_one_line_is_one_line():
    assert on_one_line("first\n  8 of 8 confirmed\n") == "first 8 of 8 confirmed "
