"""The comparison of stored runs, without those that turn out to be unreadable on the way.

A scan of records does not read their curves, so that a damaged one is found only when it is compared or drawn. Then all
such runs are set aside, and the others compared.
"""

from collections.abc import Callable
from dataclasses import dataclass

from drobench.results.comparison.board import Leaderboard
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.question import DEFAULT_QUESTION, Question
from drobench.results.curves import StoredCurves, UnreadableCurves
from drobench.results.record import Record
from drobench.results.report.content import Content, gather
from drobench.results.store import ResultStore, Trouble

Keep = Callable[[list[Record]], list[Record]]
"""Which of the runs of a folder take part."""
Tell = Callable[[Trouble], None]
"""Told of every run that cannot be read."""


@dataclass(frozen=True)
class Comparison:
    """The runs that took part, and what their comparison says."""

    records: list[Record]
    leaderboard: Leaderboard


def compare_stored(
    store: ResultStore, tell: Tell, question: Question = DEFAULT_QUESTION, keep: Keep = list
) -> Comparison:
    """Compare the runs of a folder.

    Raises:
        NothingToCompare: If there are no such runs.
        SettingError: If the question does not fit them.
    """
    return _used(store, tell, keep, lambda records, curves: leaderboard(records, curves, question))


def draw_stored(
    store: ResultStore, tell: Tell, question: Question = DEFAULT_QUESTION, keep: Keep = list
) -> tuple[Comparison, Content]:
    """Compare the runs of a folder and compute what is drawn of them; raises as `compare_stored` does."""
    contents = []

    def draw(records: list[Record], curves: StoredCurves) -> Leaderboard:
        found = leaderboard(records, curves, question)
        contents.append(gather(found, records, curves))
        return found

    return _used(store, tell, keep, draw), contents[-1]


def _used(
    store: ResultStore, tell: Tell, keep: Keep, use: Callable[[list[Record], StoredCurves], Leaderboard]
) -> Comparison:
    """Use the records; where curves cannot be read, do so again without their runs."""
    scan, curves = store.records(), StoredCurves(store)
    for trouble in scan.troubles:
        tell(trouble)
    records = keep(scan.records)
    while True:
        try:
            return Comparison(records, use(records, curves))
        except UnreadableCurves as error:
            # Some go each time, so that this comes to an end.
            left = [record for record in records if record.run_id not in error.troubles]
            bad = {**error.troubles, **curves.aside([record.run_id for record in left])}
            for trouble in bad.values():
                tell(trouble)
            records = [record for record in left if record.run_id not in bad]
