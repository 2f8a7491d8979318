"""The committed leaderboard is the one that its committed records make."""

import pytest

from benchmarks.studies.published import BUNDLE, PLACE, compare, page


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    return compare(BUNDLE, tmp_path_factory.mktemp("published"))


def test_the_page_is_made_from_the_bundle_beside_it(compared):
    assert page(compared[2]) == (PLACE / "leaderboard.md").read_text(encoding="utf-8")


def test_it_compares_all_runs_of_the_sweep(compared):
    _, records, found = compared
    assert len(records) == 105
    assert len(found.boards) == 5
    assert {row.runs for board in found.boards for row in board.rows} == {7}
    assert found.profiles is not None


def test_everything_that_the_page_shows_is_there():
    for name in ("report.html", "performance_profiles.png", "convergence.png"):
        assert (PLACE / name).stat().st_size > 10_000
