"""The figure of error against violation."""

from result_samples import make_record

from drobench.results.record import Iterate, Iterates
from drobench.results.report.looks import PAPER
from drobench.results.report.styles import styles
from drobench.results.report.tradeoff import trade_offs
from drobench.results.report.tradeoff_figure import trade_off, trade_off_rows


def run(seed, last=None, average=None, best_feasible=None):
    record = make_record(seed=seed)

    def point(values):
        return None if values is None else Iterate(train_max_violation=values[0], train_error=values[1])

    iterates = Iterates(last=point(last), average=point(average), best_feasible=point(best_feasible))
    return type(record)(**{**vars(record), "iterates": iterates})


def test_points_and_medians_are_the_rows_of_the_figure():
    found = trade_offs([("alpha", [run(0, last=(0.1, 0.3)), run(1, last=(0.3, 0.1)), run(2, last=(0.2, 0.2))])])
    drawn = trade_off_rows(found["last", "train"])
    assert drawn["runs"][0] == {"solver": "alpha", "violation": 0.1, "error": 0.3}
    assert drawn["middles"] == [{"solver": "alpha", "violation": 0.2, "error": 0.2, "efficient": True}]


def test_the_border_of_what_is_feasible_and_the_data_are_named():
    spec = trade_off(styles(["a"]).values(), PAPER, "validation", 0.05)
    border = spec["layer"][0]
    assert border["data"] == {"values": [{"violation": 0.05}]}
    assert border["encoding"]["x"]["title"] == "largest violation, validation data"
    assert [layer["data"].get("name") for layer in spec["layer"][2:]] == ["middles", "runs", "middles"]
