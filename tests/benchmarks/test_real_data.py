"""Where the real data are looked for, and what is said where they are not."""

import pytest

from benchmarks.real_data import ADULT, COMMUNITIES, MSLR, explain_absence, find_real_data, folder_to_search
from benchmarks.twins.raw_files import write_files
from drobench_plugins.datasets import adult, communities_crime
from drobench_plugins.datasets.letor_text import parse_letor


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """Name an empty folder in both variables."""
    monkeypatch.setenv("DROBENCH_REAL_DATA", str(tmp_path / "named"))
    monkeypatch.setenv("DROBENCH_DATA", str(tmp_path / "cache"))
    return tmp_path


def touch_all(folder):
    for place, name in (
        [("adult", each) for each in ADULT] + [("c", COMMUNITIES)] + [("m", each) for each in MSLR.values()]
    ):
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / name).touch()


def test_an_option_goes_before_a_variable_and_that_before_the_cache(nowhere, monkeypatch):
    assert folder_to_search(nowhere / "option") == nowhere / "option"
    assert folder_to_search() == nowhere / "named"
    monkeypatch.delenv("DROBENCH_REAL_DATA")
    assert folder_to_search() == nowhere / "cache"


def test_files_are_found_by_name_in_any_folder_below(nowhere):
    touch_all(nowhere / "named")
    found = find_real_data()
    assert [path.name for path in found.adult] == list(ADULT)
    assert found.communities == nowhere / "named" / "c" / COMMUNITIES
    assert {split: path.name for split, path in found.mslr.items()} == MSLR


def test_what_is_absent_is_named_with_what_to_do(nowhere):
    touch_all(nowhere / "named")
    (nowhere / "named" / "c" / COMMUNITIES).unlink()
    assert find_real_data() is None
    message = explain_absence()
    for words in (COMMUNITIES, str(nowhere / "named"), "drobench data fetch communities_crime", "--data DIR"):
        assert words in message
    assert "adult.data" not in message


def test_twins_written_as_files_are_read_by_the_readers_of_the_real_ones(tmp_path):
    written = write_files(tmp_path)
    assert find_real_data(tmp_path) == written
    assert adult.read_table(written.adult).shape == (1200, 15)
    assert communities_crime.encode(communities_crime.read_table(written.communities))[0].shape == (600, 145)
    assert parse_letor(written.mslr["train"]).features.shape[1] == 136
