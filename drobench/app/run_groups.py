"""What a stored run does to groups, computed again from its stored solution on the data that are here."""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.app.assemble import DTYPES
from drobench.app.loading import LastDataset
from drobench.app.stored_config import scored_part, stored_values
from drobench.data.dataset import SPLIT_NAMES
from drobench.errors import DrobenchError
from drobench.problem.group_table import GroupRow, group_table
from drobench.problem.groupings import Grouping, groupings
from drobench.problem.row_scores import RowScores
from drobench.registry import Catalogue
from drobench.registry.models import model_of
from drobench.results.record import Record
from drobench.results.store import ResultStore

ALL = "all"
"""What all rows of a split together are called."""


class NoGroupTable(DrobenchError):
    """There is no table by group of this run."""


@dataclass(frozen=True)
class SplitGroups:
    """One split, cut one way.

    Attributes:
        grouping: `group`, `class`, `attribute 0` and so on; `all` where there is nothing to cut by.
        split: `train`, `validation` or `test`.
        rows: One per group, with what it is called.
        whole: All rows of the split as one group.
    """

    grouping: str
    split: str
    rows: tuple[tuple[str, GroupRow], ...]
    whole: GroupRow


class RunGroups:
    """Computes tables by group of the runs of one folder."""

    def __init__(self, store: ResultStore, catalogue: Catalogue) -> None:
        self.store = store
        self.catalogue = catalogue
        self.datasets = LastDataset()

    def of(self, record: Record, iterate: str = "last") -> list[SplitGroups]:
        """Return what a stored iterate does to each group: one entry per grouping and split.

        Raises:
            NoGroupTable: It has no such iterate, the data here are others, or its problem does not score single rows.
            DrobenchError: Problem, dataset or model is not here.
        """
        scored = self._scored(record, iterate)
        if "train" not in scored:
            raise NoGroupTable(
                f"Problem {record.problem.name!r} does not say what a point does to single rows, so there is no table "
                "by group. Its author adds that as `Problem.row_scores`."
            )
        found = [
            _cut(grouping, split, rows)
            for split, rows in scored.items()
            for grouping in groupings(rows, scored["train"]) or [Grouping(ALL, _together(rows), {0: ALL})]
        ]
        order = list(dict.fromkeys(part.grouping for part in found))
        return sorted(found, key=lambda part: order.index(part.grouping))

    def _scored(self, record: Record, iterate: str) -> dict[str, RowScores]:
        """Return the rows of each split that there is, scored at the stored point."""
        points = self.store.solution(record.run_id)
        if getattr(record.iterates, iterate) is None or iterate not in points:
            raise NoGroupTable(f"Run {record.short_id} ({record.status}) has no iterate {iterate!r} to score.")
        part = scored_part(stored_values(self.store.config(record.run_id)), self.catalogue)
        dataset = self.datasets.load(part, self.catalogue)
        if dataset.sha256 != record.dataset.sha256:
            raise NoGroupTable(
                f"The data of run {record.short_id} had the checksum {record.dataset.sha256}, those that "
                f"{record.dataset.name!r} gives here have {dataset.sha256}: a table by group would be about others."
            )
        dtype = DTYPES[part.dtype]
        build = self.catalogue.problem(part.problem.name).entry.factory
        problem = build(part.problem, dataset.to("cpu", dtype), model_of(part.model, self.catalogue))
        point = torch.from_numpy(points[iterate]).to(dtype)
        scored = {split: problem.row_scores(point, split) for split in SPLIT_NAMES}
        return {split: rows for split, rows in scored.items() if rows is not None}


def _together(rows: RowScores) -> Tensor:
    return torch.zeros(rows.truth.shape[0], dtype=torch.int64)


def _cut(grouping: Grouping, split: str, rows: RowScores) -> SplitGroups:
    found = group_table(grouping.member, rows.truth, rows.scores, rows.loss, rows.task)
    (whole,) = group_table(_together(rows), rows.truth, rows.scores, rows.loss, rows.task)
    named = tuple((grouping.labels.get(row.group, str(row.group)), row) for row in found)
    return SplitGroups(grouping.name, split, named, whole)
