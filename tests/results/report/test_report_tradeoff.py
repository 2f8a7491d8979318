"""Error against violation: points and fronts, against brute force."""

import numpy
from result_samples import make_record

from drobench.results.record import Iterate, Iterates
from drobench.results.report.tradeoff import pareto_front, trade_offs
from drobench.results.report.tradeoff_figure import trade_off_rows


def run(seed, last=None, average=None, best_feasible=None):
    record = make_record(seed=seed)

    def point(values):
        return None if values is None else Iterate(train_max_violation=values[0], train_error=values[1])

    iterates = Iterates(last=point(last), average=point(average), best_feasible=point(best_feasible))
    return type(record)(**{**vars(record), "iterates": iterates})


def test_front_holds_exactly_the_points_that_nothing_dominates():
    random = numpy.random.default_rng(0)
    for _ in range(50):
        points = [tuple(pair) for pair in random.integers(0, 6, (8, 2)).astype(float).tolist()]
        expected = {
            place
            for place, (violation, error) in enumerate(points)
            if not any((v <= violation and e < error) or (v < violation and e <= error) for v, e in points)
        }
        front = pareto_front(points)
        assert set(front) == expected
        assert [points[place] for place in front] == sorted(points[place] for place in front)


def test_iterates_and_splits_are_kept_apart_and_medians_are_over_seeds():
    rows = [
        ("alpha", [run(0, last=(0.1, 0.3), average=(0.0, 0.5)), run(1, last=(0.3, 0.1)), run(2, last=(0.2, 0.2))]),
        ("beta", [run(0, last=(0.4, 0.4))]),
    ]
    found = trade_offs(rows)
    assert set(found) == {("last", "train"), ("average", "train")}
    alpha, beta = found["last", "train"]
    assert alpha.middle == (0.2, 0.2)
    assert alpha.efficient
    assert not beta.efficient
    assert found["average", "train"][0].runs == ((0.0, 0.5),)
    drawn = trade_off_rows(found["last", "train"])
    assert drawn["middles"] == [
        {"solver": "alpha", "violation": 0.2, "error": 0.2, "efficient": True},
        {"solver": "beta", "violation": 0.4, "error": 0.4, "efficient": False},
    ]
    assert len(drawn["runs"]) == 4


def test_without_constraints_there_is_nothing_to_trade():
    record = make_record(iterate=Iterate(train_error=0.1))
    assert trade_offs([("alpha", [record])]) == {}
