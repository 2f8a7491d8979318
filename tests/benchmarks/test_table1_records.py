"""The tables of Table 1 from stored runs and from instances: families, targets, storage, curvature."""

import math
from types import SimpleNamespace

import polars as pl
import pytest
import torch

from benchmarks.table1 import bounds
from benchmarks.table1.families import accuracy_of, costs_of, family_of, first_cost, width_for
from benchmarks.table1.growth import fit, sort
from benchmarks.table1.instances import curvatures, numbers_kept, storage, top_curvature
from benchmarks.table1.tables import STORED
from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.results.record import Status
from drobench.solver.estimators import Estimates

PARAMETERS = 6  # five features and the intercept


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


def test_a_tensor_kept_twice_is_counted_once():
    point = torch.zeros(7)
    assert numbers_kept([point, (point, torch.ones(3)), 4.0, "text"]) == 10
    assert numbers_kept(Estimates(*[None] * len(Estimates.__dataclass_fields__))) == 0


@pytest.mark.parametrize(
    ("label", "kept"),
    [
        # Point and two means of n + 1 + m, probabilities and violations of all 2m + 1 constraints.
        ("MidTouch", lambda m, n: 3 * (n + 1 + m) + 2 * (2 * m + 1)),
        # The joint variable, the snapshot, its operator, two means.
        ("SEVR", lambda m, n: 5 * (n + 1 + m)),
        # The joint variable, two means, the order of the rows.
        ("SERR", lambda m, n: 3 * (n + 1 + m) + m),
        # Point, previous point, slope, and the same of the last snapshot; inner values, shifts.
        ("GCIVR, literal (W1)", lambda m, n: 6 * (n + 1 + m) + 4),
    ],
)
def test_what_a_state_keeps_by_hand(label, kept):
    assert storage(STORED[label], 40) == kept(40, PARAMETERS)


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


def test_the_reduced_form_keeps_nothing_per_sample():
    assert storage(STORED["GCIVR, reduced (W2)"], 16) == storage(STORED["GCIVR, reduced (W2)"], 40)


def test_curvature_of_a_known_function():
    class Quadratic(Composite):
        def __init__(self):
            pass

        def estimate(self, points, rows, shift):
            raise NotImplementedError

        def smooth_gradient(self, point):
            return torch.tensor([1.0, 5.0, -9.0], dtype=torch.float64) * point

    assert top_curvature(Quadratic(), torch.ones(3).double()) == pytest.approx(5.0, rel=1e-6)


def test_literal_curvature_is_inverse_to_the_width():
    """Ten times narrower is ten times steeper, once the narrowest part dominates."""
    wide, narrow = curvatures("literal", 16, (0.01, 0.001))
    assert narrow / wide == pytest.approx(10.0, rel=0.05)


def test_the_hidden_factor_makes_the_stated_rate_a_power():
    cells = {(m, eps): [bounds.strongly_convex(m, eps, 10.0)] * 2 for m in (10**6, 10**7) for eps in (1e-2, 1e-4)}
    hidden = {(m, eps): [bounds.strongly_convex_hidden(m, eps)] * 2 for m in (100, 1000) for eps in (1e-6, 1e-8)}
    stated, true = fit(sort(cells).complete), fit(sort(hidden).complete)
    assert stated.size.value == pytest.approx(1.0, abs=0.02)
    assert stated.accuracy.value < 0.2
    assert true.size.value == pytest.approx(0.5, abs=0.25)
    assert true.accuracy.value == pytest.approx(1.0, abs=0.1)


def test_the_bound_of_non_convex_problems_is_the_smaller_of_its_two():
    assert bounds.non_convex(100, 1e-4) == pytest.approx(1e5)
    assert bounds.non_convex(10**6, 1e-4) == pytest.approx(1e6)
    assert bounds.non_convex_below(100, 1e-4) == pytest.approx(1e5)


def test_midtouch_by_hand():
    """At eps = 1 all four terms are powers of m and ln m."""
    log = math.log(50)
    expected = log + 50**1.5 * log**1.5 + 50 * log ** (2 / 3) + 2500 * log
    assert bounds.midtouch(50, 1.0) == pytest.approx(expected)


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
