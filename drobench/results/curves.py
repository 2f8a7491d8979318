"""All curves of a folder of results in one query."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import polars

from drobench.errors import DrobenchError
from drobench.results.contents import CURVE, MOST_CELLS
from drobench.results.fields import DamagedRecord
from drobench.results.outcome import Ending, ending_of, scored_start
from drobench.results.record import Outcome, Record
from drobench.results.store import ResultStore, Trouble, UnknownRun

RUN = "run_id"
"""The column that tells the runs of a common frame apart."""

_ID_LENGTH = 64
# Polars stops at some damaged pages with a panic, which is no `Exception`.
_UNREADABLE = (OSError, polars.exceptions.PolarsError, polars.exceptions.PanicException)

Curves = Callable[[str], polars.DataFrame]
"""Gives the curve of a run by its id."""


@runtime_checkable
class ManyCurves(Protocol):
    """A source that can read many curves at once."""

    def __call__(self, run_id: str) -> polars.DataFrame:
        """The curve of one run."""

    def many(self, run_ids: Sequence[str], columns: Sequence[str]) -> polars.DataFrame:
        """The named columns of many curves as numbers, and the column `run_id`."""


class UnreadableCurves(DrobenchError):
    """Curves that cannot be read; their runs were set aside, or are gone.

    Args:
        troubles: What is wrong with each, by the id of its run.
    """

    def __init__(self, troubles: Mapping[str, Trouble]) -> None:
        super().__init__(troubles)
        self.troubles = troubles

    def __str__(self) -> str:
        lines = " ".join(trouble.message for trouble in self.troubles.values())
        return f"{lines} The same command now does without."


class StoredCurves:
    """The curves of a store; for ten thousand runs much quicker than asking the store for each.

    A scan of records sees only whether the file of a curve is complete. One that cannot be read is set aside here.

    Args:
        store: Where the runs are.
    """

    def __init__(self, store: ResultStore) -> None:
        self.store = store

    def __call__(self, run_id: str) -> polars.DataFrame:
        """The curve of one run, as the store gives it.

        Raises:
            UnreadableCurves: If it cannot be read.
        """
        try:
            return self.store.curve(run_id)
        except (DamagedRecord, UnknownRun):
            self._raise_unreadable([run_id])
            return self.store.curve(run_id)  # somebody has replaced it in the meantime

    def ending(self, record: Record) -> Ending:
        """What a run came to; its curve is read only where it can say more than the record."""
        if record.iterates.last is None or record.outcome is Outcome.OK:
            return Ending(record.outcome)
        curve = self(record.run_id)
        return ending_of(record, scored_start(curve.row(0, named=True)) if curve.height else None)

    def many(self, run_ids: Sequence[str], columns: Sequence[str]) -> polars.DataFrame:
        """The named columns of many curves as numbers, null where a curve has none, and the column `run_id`.

        Raises:
            UnreadableCurves: If some of the curves cannot be read.
        """
        root = str(self.store.root)
        files = [f"{root}/{run_id}/{CURVE}" for run_id in run_ids]
        # Curves of different problems have different columns, and a column without any value has no type.
        scan = polars.scan_parquet(
            files,
            glob=False,
            hive_partitioning=False,
            schema=dict.fromkeys(columns, polars.Float64()),
            missing_columns="insert",
            extra_columns="ignore",
            cast_options=polars.ScanCastOptions(integer_cast=["upcast", "allow-float"], float_cast="upcast"),
            include_file_paths="file",
        )
        most = MOST_CELLS // (len(columns) + 1)
        try:
            rows = scan.head(most + 1).collect()
            if rows.height > most:
                # Many runs, or one whose curve would fill the memory: each is asked before all are read.
                self._raise_unreadable(run_ids)
                rows = scan.collect()
        except _UNREADABLE:
            self._raise_unreadable(run_ids)
            return one_by_one(self, run_ids, columns)
        # One piece of memory per file would make every later operation slow.
        rows = rows.rechunk()
        return rows.with_columns(polars.col("file").str.slice(len(root) + 1, _ID_LENGTH).alias(RUN)).drop("file")

    def aside(self, run_ids: Sequence[str]) -> dict[str, Trouble]:
        """Read each curve, set aside the runs whose curve cannot be read, and say what is wrong with them."""
        return {run_id: trouble for run_id in run_ids if (trouble := self._trouble(run_id)) is not None}

    def _trouble(self, run_id: str) -> Trouble | None:
        try:
            self.store.curve(run_id)
        except UnknownRun:
            folder = self.store.root / run_id
            return Trouble(folder, f"{folder} is gone: another process has moved it away since the runs were listed.")
        except DamagedRecord as error:
            try:
                place = self.store.set_aside(run_id)
            except DrobenchError as refusal:
                folder = self.store.root / run_id
                return Trouble(folder, f"{error} Its folder was left in place. {refusal}")
            return Trouble(place, f"{error} Its folder was moved to {place}.")
        return None

    def _raise_unreadable(self, run_ids: Sequence[str]) -> None:
        troubles = self.aside(run_ids)
        if troubles:
            raise UnreadableCurves(troubles)


def read_many(curves: Curves | ManyCurves, run_ids: Sequence[str], columns: Sequence[str]) -> polars.DataFrame:
    """The named columns of many curves as numbers, in the quickest way the source offers."""
    if not run_ids:
        return polars.DataFrame(schema=_schema(columns))
    return curves.many(run_ids, columns) if isinstance(curves, ManyCurves) else one_by_one(curves, run_ids, columns)


def one_by_one(curves: Curves, run_ids: Sequence[str], columns: Sequence[str]) -> polars.DataFrame:
    """The same from a source that gives one curve at a time; a curve that cannot be read is named by its error."""
    frames = [_aligned(curves(run_id), columns).with_columns(polars.lit(run_id).alias(RUN)) for run_id in run_ids]
    return polars.concat([polars.DataFrame(schema=_schema(columns)), *frames])


def _aligned(curve: polars.DataFrame, columns: Sequence[str]) -> polars.DataFrame:
    """The needed columns, the same for every run: a run that failed early may have none of them."""
    present = [polars.col(name) if name in curve.columns else polars.lit(None).alias(name) for name in columns]
    return curve.select(*(column.cast(polars.Float64) for column in present))


def _schema(columns: Sequence[str]) -> Mapping[str, Any]:
    return {**dict.fromkeys(columns, polars.Float64()), RUN: polars.String()}
