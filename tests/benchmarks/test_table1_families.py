"""The runs of Table 1: which row each belongs to, and the cost of an accuracy read from its curve."""

import math
from types import SimpleNamespace

import polars as pl
import pytest

from benchmarks.studies.table1.families import accuracy_of, costs_of, family_of, first_cost, width_for
from drobench.errors import DrobenchError
from drobench.results.record import Status


def test_the_width_of_an_accuracy_leads_back_to_it():
    for size in (32, 64, 128):
        for eps in (0.1, 0.05, 0.025, 0.0125):
            written = float(f"{width_for('literal', size, eps):.4g}")
            assert accuracy_of("literal", size, written) == pytest.approx(eps, rel=0.05)
    assert width_for("literal", 32, 0.1) == pytest.approx(0.1 / math.log(66))
    assert accuracy_of("reduced", 512, 0.003) == 0.003


def test_a_cost_is_that_of_the_first_evaluation_that_meets_the_target():
    curve = pl.DataFrame({"oracle_calls": [0, 10, 20, 30, 40], "gap": [1.0, None, 0.09, 0.2, 0.01]})
    assert first_cost(curve, "gap", 0.1) == 20
    assert first_cost(curve, "gap", 0.01) == 40
    assert first_cost(curve, "gap", 2.0) == 0
    assert first_cost(curve, "gap", 1e-3) == math.inf


def test_a_value_that_is_no_number_meets_no_target():
    assert first_cost(pl.DataFrame({"oracle_calls": [5], "gap": [math.nan]}), "gap", 1e9) == math.inf


def test_only_runs_of_the_table_have_a_family():
    def record(dataset, problem, solver):
        return SimpleNamespace(
            dataset=SimpleNamespace(name=dataset),
            problem=SimpleNamespace(name=problem, config={}),
            solver=SimpleNamespace(name=solver, config={}),
            reformulation={"wasserstein": "reduced"},
        )

    assert family_of(record("synthetic", "kl_classification", "gcivr")) == "kl"
    assert family_of(record("synthetic", "wasserstein_logistic", "gcivr")) == "reduced"
    assert family_of(record("synthetic", "wasserstein_logistic", "serr")) == "serr"
    assert family_of(record("synthetic", "kl_classification", "scgd")) is None
    assert family_of(record("breast_cancer", "kl_classification", "gcivr")) is None
    assert family_of(record("synthetic", "group_classification", "gcivr")) is None


class Run:
    """As much of a record as the table reads."""

    def __init__(self, seed, rows=64, target_gap=2e-3, status=Status.CONVERGED, optimum=0.4):
        self.seed, self.status, self.optimum = seed, status, optimum
        self.dataset = SimpleNamespace(config={"rows": rows})
        self.budget = {"target_gap": target_gap, "target_stationarity": None}


def curve_of(*calls):
    """A gap that falls to a tenth with every evaluation."""
    return pl.DataFrame({"oracle_calls": [0, *calls], "gap": [0.5 * 0.1**step for step in range(len(calls) + 1)]})


def test_costs_are_those_of_the_accuracies_asked_for_in_the_order_of_seeds():
    costs = costs_of("midtouch", [(Run(1), curve_of(20, 40, 60)), (Run(0), curve_of(10, 20, 30))])
    assert costs == {
        (64, eps): [cost, 2 * cost] for eps, cost in [(1e-1, 10), (3e-2, 20), (1e-2, 20), (3e-3, 30), (1e-3, 30)]
    }


def test_failed_and_missing_runs_reach_nothing():
    runs = [
        (Run(0), curve_of(10, 20, 30)),
        (Run(1, status=Status.DIVERGED), curve_of(10, 20, 30)),
        (Run(0, rows=128), curve_of(10)),
    ]
    costs = costs_of("midtouch", runs)
    assert costs[64, 1e-1] == [10, math.inf]
    assert costs[128, 1e-1] == [10, math.inf]
    assert costs[128, 1e-2] == [math.inf, math.inf]


def test_two_runs_for_one_place_are_refused():
    with pytest.raises(DrobenchError, match="folder of its own"):
        costs_of("midtouch", [(Run(0), curve_of(10)), (Run(0), curve_of(20))])


def test_without_a_certified_optimum_the_cost_is_unknown():
    costs = costs_of("midtouch", [(Run(0, optimum=None), curve_of(10))])
    assert all(math.isnan(cost) for (cost,) in costs.values())
