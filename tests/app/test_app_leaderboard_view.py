"""The leaderboard in the terminal: all of it where there is room, what matters where there is not."""

import io

from rich.console import Console

from drobench.app.leaderboard_view import show_leaderboard
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.curves import StoredCurves
from drobench.results.report.formats import reading, sections
from drobench.results.store import ResultStore


def shown(found, width):
    sink = io.StringIO()
    show_leaderboard(Console(file=sink, width=width), found)
    return sink.getvalue()


def compared(folder):
    store = ResultStore(folder)
    return leaderboard(store.records().records, StoredCurves(store))


def test_every_section_and_how_to_read_it_is_printed(finished):
    found = compared(finished[0])
    text = shown(found, 400)
    for title, content, _ in sections(found):
        assert title in text
        assert all(name in text for name in content.header)
    assert all(" ".join(line.split()) in " ".join(text.split()) for line in reading(found))


def test_a_narrow_terminal_loses_columns_but_no_solver(finished):
    found = compared(finished[0])
    _, content, _ = sections(found)[0]
    wide, narrow = (shown(found, width) for width in (400, 90))
    spared = content.dispensable[0]
    assert content.dispensable
    assert f" {content.header[spared] if isinstance(spared, int) else spared} " in wide
    assert max(map(len, narrow.splitlines())) <= 90
    for solver in finished[1]:
        assert solver in narrow
