"""Curves read together, and what becomes of one that cannot be read."""

import polars
import pytest
from result_samples import CONFIG, SOLUTION, make_curve, make_record, unsealed

from drobench.results import contents, curves
from drobench.results.curves import RUN, ManyCurves, StoredCurves, UnreadableCurves, one_by_one, read_many
from drobench.results.record import Iterate
from drobench.results.store import ResultStore

COLUMNS = ("step", "objective", "gap", "missing")


@pytest.fixture
def store(tmp_path):
    # A name that a pattern would take for another.
    filled = ResultStore(tmp_path / "results [1]*")
    for seed in range(3):
        record = make_record(seed=seed, iterate=Iterate(objective=1.0, feasible=True))
        filled.write(record, make_curve([3.0, 2.0, 1.0 + seed], optimum=None if seed else 0.5), SOLUTION, CONFIG)
    return filled


def run_ids(store):
    return [record.run_id for record in store.records().records]


def test_read_together_they_are_what_they_are_one_by_one(store):
    together = StoredCurves(store).many(run_ids(store), COLUMNS)
    apart = one_by_one(store.curve, run_ids(store), COLUMNS)
    assert together.select(apart.columns).equals(apart)
    assert together.height == 9
    assert together["missing"].null_count() == 9
    assert together["gap"].null_count() == 6


def damage(store, run_id):
    """Damage a curve between sound marks, in a run without seal: that is seen only when it is read."""
    unsealed(store.root / run_id)
    file = store.root / run_id / "curve.parquet"
    content = bytearray(file.read_bytes())
    content[4:-8] = bytes(len(content) - 12)
    file.write_bytes(content)


def test_all_damaged_curves_are_set_aside_at_once_and_the_others_stay(store):
    first, second, third = run_ids(store)
    damage(store, first)
    damage(store, third)
    with pytest.raises(UnreadableCurves, match=r"curve\.parquet.* moved to .*\.damaged.* now does without") as caught:
        StoredCurves(store).many([first, second, third], COLUMNS)
    assert set(caught.value.troubles) == {first, third}
    assert run_ids(store) == [second]
    assert len(list((store.root / ".damaged").iterdir())) == 2
    assert StoredCurves(store).many([second], COLUMNS).height == 3


def test_a_run_that_is_gone_since_the_list_was_made_is_named_and_the_others_stay(store):
    first, second, third = run_ids(store)
    store.set_aside(second)
    with pytest.raises(UnreadableCurves, match="is gone: another process has moved it away") as caught:
        StoredCurves(store).many([first, second, third], COLUMNS)
    assert set(caught.value.troubles) == {second}
    with pytest.raises(UnreadableCurves, match="is gone"):
        StoredCurves(store)(second)


def test_a_damaged_run_that_somebody_holds_is_left_in_place_and_named(store):
    first = run_ids(store)[0]
    damage(store, first)
    with store.lock(first), pytest.raises(UnreadableCurves, match=r"left in place.*another process"):
        StoredCurves(store)(first)
    assert first in run_ids(store)


@pytest.mark.parametrize(
    "column", [["a", "b", "c"], [{"x": 1}, {"x": 2}, {"x": 3}], [[1], [2], [3]], [b"x", b"y", b"z"]]
)
@pytest.mark.parametrize("name", ["objective", "further"])
def test_a_curve_of_something_else_than_numbers_is_set_aside(store, column, name):
    """Whether the column is asked for or not: the report reads all of them."""
    first = run_ids(store)[0]
    unsealed(store.root / first)
    make_curve([3.0, 2.0, 1.0], **{name: column}).write_parquet(store.root / first / "curve.parquet")
    with pytest.raises(UnreadableCurves, match=rf"columns of numbers; found '{name}' of type"):
        StoredCurves(store)(first)
    assert first not in run_ids(store)


def test_whole_numbers_booleans_and_nothing_are_numbers(store):
    first = run_ids(store)[0]
    curve = make_curve([3.0, 2.0, 1.0], feasible=[True, False, True], gap=[None, None, None])
    curve.write_parquet(store.root / first / "curve.parquet")
    found = StoredCurves(store).many([first], ("objective", "feasible", "gap", "step"))
    assert found["feasible"].to_list() == [1.0, 0.0, 1.0]


def test_a_curve_that_would_fill_the_memory_is_refused_before_it_is_decoded(store, monkeypatch):
    """A few bytes can stand for any number of equal values."""
    first, *others = run_ids(store)
    file = store.root / first / "curve.parquet"
    polars.select(step=polars.repeat(1.0, 300_000), objective=polars.repeat(1.0, 300_000)).write_parquet(file)
    assert file.stat().st_size < 10_000
    for module in (contents, curves):
        monkeypatch.setattr(module, "MOST_CELLS", 500_000)
    with pytest.raises(UnreadableCurves, match="at most 500000 values; found 300000 rows of 2"):
        StoredCurves(store).many([first, *others], COLUMNS)
    assert run_ids(store) == others


def test_many_runs_are_read_although_together_they_have_more_values_than_one_may_have(store, monkeypatch):
    monkeypatch.setattr(curves, "MOST_CELLS", 20)
    assert StoredCurves(store).many(run_ids(store), COLUMNS).height == 9


class Remembered:
    """A source of one's own that can read many curves at once, and says how often it was asked."""

    def __init__(self, frame):
        self.frame, self.asked = frame, []

    def __call__(self, run_id):
        raise AssertionError(f"{run_id} should be read together with the others")

    def many(self, run_ids, columns):
        self.asked.append((tuple(run_ids), tuple(columns)))
        return self.frame


def test_any_source_that_reads_many_at_once_is_asked_once(store):
    together = StoredCurves(store).many(run_ids(store), COLUMNS)
    source = Remembered(together)
    assert isinstance(source, ManyCurves)
    assert read_many(source, run_ids(store), COLUMNS) is together
    assert source.asked == [(tuple(run_ids(store)), COLUMNS)]


def test_a_plain_function_is_asked_for_one_after_the_other(store):
    assert not isinstance(store.curve, ManyCurves)
    found = read_many(store.curve, run_ids(store), COLUMNS)
    assert found[RUN].unique(maintain_order=True).to_list() == run_ids(store)
    assert read_many(store.curve, [], COLUMNS).columns == [*COLUMNS, RUN]
