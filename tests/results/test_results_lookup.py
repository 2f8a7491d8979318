"""A run is found by the beginning of its id."""

from pathlib import Path

import pytest

from drobench.results.lookup import SHORTEST_PREFIX, UnknownRun, only_match

ROOT = Path("some/results")
STORED = ["abcd" + "0" * 60, "abce" + "0" * 60, "ffff" + "0" * 60]


def test_enough_digits_find_the_one_run_whatever_their_case_and_spaces():
    assert only_match("abcd", STORED, ROOT) == STORED[0]
    assert only_match(" FFFF0 ", STORED, ROOT) == STORED[2]
    assert only_match(STORED[1], STORED, ROOT) == STORED[1]


def test_too_few_digits_are_refused_before_anything_is_found():
    with pytest.raises(UnknownRun, match=f"at least {SHORTEST_PREFIX} digits; found 'fff'. Near ones: ffff00000000"):
        only_match("fff", STORED, ROOT)


def test_several_that_fit_are_listed():
    with pytest.raises(UnknownRun, match=r"2 runs begin with 'aaaa'.*aaaa10000000, aaaa20000000. Give more digits"):
        only_match("aaaa", ["aaaa1" + "0" * 59, "aaaa2" + "0" * 59], ROOT)


def test_what_comes_near_shares_as_many_digits_as_any():
    with pytest.raises(UnknownRun, match=r"no run 'abcf' in some.results. Near ones: abcd00000000, abce00000000[.]"):
        only_match("abcf", STORED, ROOT)


def test_a_long_list_is_cut():
    many = [f"{number:064x}" for number in range(12)]
    with pytest.raises(UnknownRun, match="and 4 more"):
        only_match("0000", many, ROOT)


def test_an_empty_folder_says_how_to_choose_another():
    with pytest.raises(UnknownRun, match="holds no runs; `results=DIR` or DROBENCH_RESULTS"):
        only_match("abcd", [], ROOT)
