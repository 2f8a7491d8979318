"""The outcome of a run as flat names and values."""

import math
from dataclasses import replace

from drobench import run
from drobench.results.record import Outcome
from drobench.training.summary import summary_of

SMALL = ("dataset=synthetic", "dataset.rows=200", "dataset.features=3", "problem.l2=0.1", "budget.passes=1")


def test_a_summary_has_scores_and_costs_and_leaves_out_what_is_unknown(tmp_path):
    record = run(*SMALL, results=tmp_path / "results")
    summary = summary_of(record)
    assert summary["status"] == record.status
    assert summary["last/objective"] == record.iterates.last.objective
    assert summary["last/train_worst_class_error"] == record.iterates.last.extra["train_worst_class_error"]
    assert summary["oracle/passes"] == record.oracle.passes
    assert None not in summary.values()
    assert "average/objective" not in summary
    assert summary_of(replace(record, outcome=Outcome.OK))["outcome"] == "ok"
    assert "outcome" not in summary_of(replace(record, outcome=None))
    assert all(math.isfinite(value) for name, value in summary.items() if name.startswith("seconds/"))
