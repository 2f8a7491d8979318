"""The finished boards of a comparison, as values; `tables` turns them into text cells."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drobench.results.comparison.profiles import Profiles
from drobench.results.comparison.rows import Comparison, Row
from drobench.results.comparison.tables import Table, board_table, joined_table
from drobench.results.comparison.targets import Target
from drobench.results.outcome import Ending


@dataclass(frozen=True)
class Board:
    """The solvers that were run on the same problem, data, model and budget.

    Attributes:
        title: Problem and dataset, and what tells this board from namesakes.
        problem: Name and config.
        dataset: Name, config and sha256.
        model: Resolved config.
        budget: Resolved config.
        rows: Best first.
        ranked_by: The metric that decides between feasible runs that did not reach the target; `None` if none has any.
        notes: What a reader must know before trusting the table.
        comparisons: Every two solvers, in the order of the rows.
        reference: Label of the solver that the rows are compared with; `None` if there is nothing to compare.
        cost: What reaching a target is counted in.
        columns: Further metrics to show.
    """

    title: str
    problem: dict[str, Any]
    dataset: dict[str, Any]
    model: dict[str, Any]
    budget: dict[str, Any]
    rows: tuple[Row, ...]
    ranked_by: str | None
    notes: tuple[str, ...]
    comparisons: tuple[Comparison, ...] = ()
    reference: str | None = None
    cost: str = "passes"
    columns: tuple[str, ...] = ()

    def to_table(self) -> Table:
        """The board as text cells, without columns that say nothing here."""
        return board_table(self.rows, self.ranked_by or "objective", self.reference, self.cost, self.columns)


@dataclass(frozen=True)
class Leaderboard:
    """All boards of a comparison.

    Attributes:
        boards: One for each problem, dataset, model and budget.
        iterate: Which iterate is compared.
        targets: What counts as solved; the first decides the ranks.
        cost: What reaching a target is counted in, by a name in `COSTS`.
        profiles: The solvers across all boards; `None` where fewer than two boards have the same solvers.
        notes: What concerns more than one board.
        baseline: What the user wants everything compared with.
        selection: How one configuration per solver was chosen; `None`: all are shown.
        endings: What each run came to, by its id; without runs that were skipped.
        further: Metrics that are summarised because they were asked for.
        more_is_better: The metrics of which more is better, as far as they were looked at.
    """

    boards: tuple[Board, ...]
    iterate: str
    targets: tuple[Target, ...]
    cost: str = "passes"
    profiles: Profiles | None = None
    notes: tuple[str, ...] = field(default=())
    baseline: str | None = None
    selection: str | None = None
    endings: Mapping[str, Ending] = field(default_factory=dict)
    further: tuple[str, ...] = ()
    more_is_better: frozenset[str] = frozenset()

    @property
    def target_gap(self) -> float | None:
        """The relative gap that decides the ranks, if the target has one."""
        return self.targets[0].gap

    def to_table(self) -> Table:
        """All boards in one table, the title of each in front; a cell is empty where a board has no such column."""
        return joined_table({board.title: board.to_table() for board in self.boards})
