import pytest
from result_samples import make_record

from drobench.results.comparison.filters import Filter, NothingToCompare

RECORDS = [
    make_record("gcivr", 0, problem="kl_classification"),
    make_record("gcivr", 1, problem="kl_ball", config={"batch": 8}),
    make_record("scgd", 0, problem="fairness", dataset="adult", config={"batch": None}),
]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, [0, 1, 2]),
        ({"problem": ["kl_*"]}, [0, 1]),
        ({"problem": ["kl_ball", "fair?ess"]}, [1, 2]),
        ({"dataset": ["adult"], "solver": ["s*"]}, [2]),
        ({"where": {"seed": "0"}}, [0, 2]),
        ({"where": {"solver.batch": "8"}}, [1]),
        ({"where": {"problem.gamma": "0.5", "model.name": "linear"}}, [0, 1, 2]),
        ({"solver": ["gcivr"], "where": {"seed": "1"}}, [1]),
    ],
)
def test_runs_that_fit_are_kept(settings, kept):
    assert Filter(**settings).apply(RECORDS) == [RECORDS[number] for number in kept]


def test_what_fits_nothing_is_refused_with_what_there_is():
    with pytest.raises(NothingToCompare, match=r"solver=gcvir; there is: gcivr, scgd"):
        Filter(solver=["gcvir"]).apply(RECORDS)
    with pytest.raises(NothingToCompare, match=r"problem.gamma=2; there is: 0.5"):
        Filter(where={"problem.gamma": "2"}).apply(RECORDS)
    assert NothingToCompare.exit_code == 3


def test_nothing_is_filtered_to_nothing():
    assert Filter(solver=["gcivr"]).apply([]) == []
