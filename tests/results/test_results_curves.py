"""Curves read together, and what becomes of one that cannot be read."""

import pytest
from result_samples import CONFIG, SOLUTION, make_curve, make_record, unsealed

from drobench.errors import DrobenchError
from drobench.results.curves import RUN, ManyCurves, StoredCurves, one_by_one, read_many
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


def test_a_damaged_curve_is_set_aside_and_the_others_stay(store):
    """Damage between sound marks is seen only when the curve is read, in a run of a version that did not seal."""
    first, *others = run_ids(store)
    unsealed(store.root / first)
    file = store.root / first / "curve.parquet"
    content = bytearray(file.read_bytes())
    content[4:-8] = bytes(len(content) - 12)
    file.write_bytes(content)
    with pytest.raises(
        DrobenchError, match=r"curve\.parquet.* moved to .*\.damaged.*the same command now does without"
    ):
        StoredCurves(store).many(run_ids(store), COLUMNS)
    assert run_ids(store) == others
    assert len(list((store.root / ".damaged").iterdir())) == 1
    assert StoredCurves(store).many(others, COLUMNS).height == 6


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
