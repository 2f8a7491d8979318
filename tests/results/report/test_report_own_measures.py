"""What only a problem measures, in the figures of a report: there, labelled, and the right way round."""

import math

import pytest
from result_samples import make_curve, make_record

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.question import Question
from drobench.results.metric import Metric, stored_metrics
from drobench.results.record import Iterate, Status
from drobench.results.report.axes import channel
from drobench.results.report.content import gather
from drobench.results.report.convergence_figure import curve_rows
from drobench.results.report.plots import all_figures
from drobench.results.report.series import own_measures

DESCRIBED = stored_metrics([Metric("r2", better="more", unit="share"), Metric("tail_loss", unit="loss")])
SHARES = {0: [0.1, 0.4, 0.8], 1: [0.1, 0.5, 0.7], 2: [0.1, 0.2]}


@pytest.fixture
def recorded():
    """Three seeds of one solver; the last one fails after its second evaluation."""
    records, curves = [], {}
    for seed, shares in SHARES.items():
        failed = {"status": Status.DIVERGED, "reason": "gone"} if seed == 2 else {}
        extra = {"test_r2": shares[-1], "test_tail_loss": 1.0, "train_r2": 0.5}
        point = Iterate(objective=2.0, feasible=True, step=20, extra=extra)
        record = make_record("alpha", seed, iterate=point, metrics=DESCRIBED, **failed)
        records.append(record)
        tails = [3.0, 2.0, 1.0][: len(shares)]
        curves[record.run_id] = make_curve(tails, test_r2=shares, test_tail_loss=tails, train_r2=shares)
    return records, curves


def content_of(recorded, **asked):
    records, curves = recorded
    found = leaderboard(records, curves.__getitem__, Question.of(**asked))
    return gather(found, records, curves.__getitem__)


def test_all_of_the_test_rows_can_be_chosen_and_what_was_asked_for(recorded):
    def keys(**asked):
        return [measure.key for measure in content_of(recorded, **asked).boards[0].measures if measure.own]

    assert keys() == ["test_r2", "test_tail_loss"]
    assert keys(columns=["train_r2"]) == ["test_r2", "test_tail_loss", "train_r2"]


def test_a_label_says_unit_and_direction(recorded):
    labels = {measure.key: measure.label for measure in own_measures(recorded[0], ())}
    assert labels == {"test_r2": "test r2 (share, more is better)", "test_tail_loss": "test tail loss (loss)"}


def test_metrics_that_the_runs_dispute_are_left_out(recorded):
    other = make_record("beta", 9, iterate=recorded[0][0].iterates.last, metrics=stored_metrics([Metric("r2")]))
    assert [measure.key for measure in own_measures([*recorded[0], other], ())] == ["test_tail_loss"]


def test_a_failure_pulls_a_band_down_where_more_is_better(recorded):
    found = content_of(recorded).boards[0].curves["alpha"].bands["passes", "test_r2"]
    assert found.median.tolist() == [0.1, 0.4, 0.7]
    assert found.least.tolist() == [0.1, 0.2, -math.inf]
    assert found.most.tolist() == [0.1, 0.5, 0.8]
    tail = content_of(recorded).boards[0].curves["alpha"].bands["passes", "test_tail_loss"]
    assert tail.most[-1] == math.inf


def test_a_band_down_to_minus_infinity_is_cut_at_the_least_value(recorded):
    (row,) = curve_rows(content_of(recorded).boards[0].curves, "passes", "test_r2")
    low, high = row["extremes"]
    assert low == [0.1, 0.2, 0.1]
    assert high == [0.1, 0.5, 0.8]


def test_a_share_that_may_be_negative_has_a_symmetric_logarithm(recorded):
    measure = own_measures(recorded[0], ())[0]
    assert channel(measure, "log", (0.1, 1.0))["scale"]["type"] == "symlog"


def test_only_what_was_asked_for_gets_a_file(recorded):
    def drawn(**asked):
        return [figure.name for figure in all_figures(content_of(recorded, **asked)) if "r2" in figure.name]

    assert drawn() == []
    assert len(drawn(by="test_r2")) == 1
