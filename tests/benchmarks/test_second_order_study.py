"""The tables of second order: gaps from what is certified, goals in every seed, and seconds beside scipy's."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from benchmarks.assembled import assembled
from benchmarks.studies.second_order import followed, peer
from benchmarks.studies.second_order.goals import KINKED, SMOOTH, Goal, judge, verdicts
from benchmarks.studies.second_order.instances import (
    L2,
    METHODS,
    Instance,
    Words,
    instance_of,
    smooth_instances,
)
from benchmarks.studies.second_order.kept import Kept
from benchmarks.studies.second_order.large import large
from benchmarks.studies.second_order.real import real_tables
from benchmarks.studies.second_order.runs import Run, measure, reached
from benchmarks.studies.second_order.seconds import Race, race
from benchmarks.studies.second_order.stepping import follow
from benchmarks.studies.second_order.tables import goal_table, large_table, method_tables, race_table
from drobench.app.config import data_dir
from drobench.app.sweep_file import load_sweep

INSTANCE = Instance("a table", "KL 1")
SMALL = ("dataset=synthetic", "dataset.rows=80", "dataset.features=4", "model.intercept=false", f"problem.l2={L2}")


def run_of(values, seed=0, method="newton", optimum=0.0, duality_gap=0.0):
    steps = [float(number) for number in range(len(values))]
    return Run(method, seed, steps, [step / 10 for step in steps], values, optimum, duality_gap)


def test_gaps_are_relative_and_from_the_least_value_that_is_known():
    found = measure(INSTANCE, [run_of([2.0, 1.5, 1.0], optimum=1.1), run_of([2.0, 1.2], method="gcivr", optimum=1.1)])
    assert list(found.curves["newton"][0].gaps) == [1.0, 0.5, 0.0]
    assert found.curves["gcivr"][0].gaps[-1] == pytest.approx(0.2)
    assert (found.curves["newton"][0].passes_to(0.5), found.curves["newton"][0].seconds_to(0.5)) == (1.0, 0.1)


def test_without_a_certificate_no_run_is_held_against_itself():
    found = measure(INSTANCE, [run_of([1.0, 0.1], optimum=None, duality_gap=math.inf), run_of([1.0, 0.0], seed=1)])
    verdict = judge(Goal("newton", 1e-4, 12.0), found)
    assert (list(verdict.passes), verdict.unknown, verdict.met) == ([1.0], 1, False)
    assert verdict.cell == "NO, 1.0, 1 not certified"
    assert "1 without a certified optimum" in verdict.shortfall


def test_a_target_finer_than_the_certificate_is_not_judged():
    found = measure(INSTANCE, [run_of([1.0, 0.0], duality_gap=1e-6)])
    assert judge(Goal("newton", 1e-4, 12.0), found).met
    assert judge(Goal("newton", 1e-8, 12.0), found).unknown == 1


def test_a_start_that_is_optimal_leaves_nothing_to_judge():
    found = measure(INSTANCE, [run_of([1.0, 1.0], optimum=1.0)])
    assert (list(found.trivial), found.curves, verdicts([found])) == ([0], {}, [])
    assert "start is optimal" in goal_table([found], SMOOTH)


@pytest.mark.parametrize(
    ("values", "cell", "words"),
    [
        ([[1.0, 0.0], [1.0, 0.0]], "1.0", None),
        ([[1.0, 0.0], [1.0, 0.5, 0.0]], "NO, 2.0", "1 of 2 seeds miss it, 2.0 passes"),
        ([[1.0, 0.0], [1.0, 0.5]], "NO, 1 of 2 get there", "1 of 2 seeds miss it, not reached in 1"),
        ([[1.0, 0.0], []], "NO, 1 of 2 get there", "1 of 2 seeds miss it, not reached in 1"),
    ],
)
def test_a_goal_holds_in_every_seed_or_says_what_is_missing(values, cell, words):
    others = [run_of([1.0, 0.5], seed, "gcivr") for seed in range(2)]
    found = measure(INSTANCE, [*others, *(run_of(each, seed) for seed, each in enumerate(values))])
    verdict = judge(Goal("newton", 1e-4, 1.0), found)
    assert (verdict.cell, verdict.met) == (cell, words is None)
    assert words is None or verdict.shortfall.endswith(words)


def test_a_seed_that_was_not_run_is_not_met_and_a_method_that_was_not_is_named():
    found = measure(INSTANCE, [run_of([1.0, 0.0]), *(run_of([1.0, 0.5], seed, "gcivr") for seed in range(2))])
    assert list(judge(Goal("newton", 1e-4, 1.0), found).passes) == [1.0, math.inf]
    assert judge(Goal("lbfgs", 1e-4, 1.0), found).shortfall.endswith("not measured")


def test_what_was_reached_is_a_median_with_its_range_or_a_count():
    assert reached([1.0, 3.0, 2.0]) == "2.0 (1.0 to 3.0)"
    assert (reached([1.0, math.inf]), reached([math.inf]), reached([])) == ("1 of 2 seeds", "none", "not certified")


def test_the_tables_have_a_row_for_each_method():
    found = measure(INSTANCE, [run_of([1.0, 0.0], method=method) for method in METHODS])
    ((data, text),) = method_tables([found])
    assert data == "a table"
    assert [line.split("`")[1] for line in text.splitlines()[2:]] == list(METHODS)


def record(dataset="synthetic", problem="kl_classification", features=10, **config):
    settings = {"l2": L2, "variant": "penalty", "gamma": 1.0, **config}
    return SimpleNamespace(
        dataset=SimpleNamespace(name=dataset, config={"features": features}),
        problem=SimpleNamespace(name=problem, config=settings),
    )


def test_instances_have_names_and_other_runs_have_none():
    assert instance_of(record()) == Instance("synthetic, 10 columns", "KL 1")
    assert instance_of(record("adult", "chi2_classification", variant="exact")) == Instance("Adult", "chi2 exact 1")
    assert instance_of(record("digits", variant="ball", radius=0.1)) == Instance("digits", "KL ball 0.1", kinked=True)
    assert instance_of(record("digits", "cvar_classification", level=0.5)).kinked
    assert instance_of(record("digits", l2=1e-3)) is None
    assert instance_of(record("mslr")) is None
    assert instance_of(record(problem="group_classification")) is None


@pytest.fixture(scope="module")
def cells():
    """Return the words of all cells of both sweeps."""
    return [
        dict(word.split("=", 1) for word in cell)
        for name in ("second_order", "second_order_real")
        for cell in load_sweep(data_dir("sweeps") / f"{name}.yaml").cells
    ]


def test_the_sweeps_have_the_methods_of_the_goals_on_the_tables_of_the_smooth_problems(cells):
    assert {cell["solver"] for cell in cells} == {goal.method for goal in KINKED}
    assert {goal.method for goal in SMOOTH} <= set(METHODS)

    def table(words):
        chosen = (word for word in words if word.startswith(("dataset", "model")) and "dataset.seed" not in word)
        return frozenset(word.replace("=3.0", "=3") for word in chosen)

    swept = {table(f"{key}={value}" for key, value in cell.items()) for cell in cells}
    assert swept == {table(words.words) for words in smooth_instances()}
    assert len(swept) == 7
    assert len(smooth_instances()) == 28


def test_methods_are_followed_from_the_rest_of_newton_and_what_was_measured_is_kept(tmp_path, monkeypatch):
    words = Words(INSTANCE, SMALL)
    found = followed.followed(words, (0, 1), ["gcivr", "newton"], Kept(tmp_path))
    assert {name: len(curves) for name, curves in found.curves.items()} == {"newton": 2, "gcivr": 2}
    assert all(curve.gaps[-1] <= 1e-12 for curve in found.curves["newton"])
    assert all(0.0 <= certified < 1e-8 for certified in found.certified.values())
    assert found.curves["gcivr"][0].passes_to(1e-2) > found.curves["newton"][0].passes_to(1e-2)
    monkeypatch.setattr(followed, "follow", None)
    again = followed.followed(words, (0, 1), ["gcivr"], Kept(tmp_path))
    assert list(again.curves["gcivr"][1].gaps) == list(found.curves["gcivr"][1].gaps)


def test_a_solver_is_followed_from_its_start_as_the_oracle_counts():
    run = assembled((*SMALL, "solver=prox_gradient", "budget.passes=1"))
    trace = follow(run, lambda trace: len(trace.values) == 4, passes=100.0)
    assert trace.values[0] == pytest.approx(math.log(2.0))
    assert trace.values[-1] < trace.values[0]
    assert (trace.passes[0], trace.seconds[0]) == (0.0, 0.0)
    # All rows in every step, after the first look at the curvature.
    assert [after - before for before, after in zip(trace.passes[1:], trace.passes[2:], strict=False)] == [1.0, 1.0]
    assert follow(run, lambda _: False, passes=20.0).passes[-1] >= 20.0


def test_the_peer_has_value_and_gradient_of_the_objective_and_stops_where_it_should():
    form = assembled((*SMALL, "solver=prox_gradient", "budget.passes=1")).form
    point = torch.linspace(-1.0, 1.0, 4, dtype=torch.float64)
    value, gradient = peer.value_and_gradient(form, L2, point)
    torch.testing.assert_close(value, form.value(point))
    torch.testing.assert_close(gradient, form.smooth_gradient(point) + L2 * point)
    best = peer.minimise(form, L2, torch.zeros_like(point))
    assert math.isinf(best.seconds)
    level = best.value + 1e-3
    reached_early = peer.minimise(form, L2, torch.zeros_like(point), until=level)
    assert best.value < reached_early.value <= level
    assert 0.0 < reached_early.seconds < math.inf
    assert reached_early.evaluations < best.evaluations


def test_a_race_is_kept_and_not_run_twice(tmp_path, monkeypatch):
    words = Words(INSTANCE, SMALL)
    first = race(words, ["gcivr"], 1, Kept(tmp_path))
    assert first.ours["gcivr"] > 0.0
    monkeypatch.setattr(peer, "minimise", None)
    assert race(words, ["gcivr"], 1, Kept(tmp_path)) == first


def test_a_large_instance_is_measured_from_where_the_second_method_comes_to_rest(tmp_path):
    found = large(Words(INSTANCE, (*SMALL, "problem.l2=0.1")), 0, Kept(tmp_path), ("gcivr", "prox_gradient"))
    assert list(found.passes) == ["gcivr", "prox_gradient"]
    assert found.certificate < 1e-2
    assert all(spent < math.inf for spent in found.passes["prox_gradient"])
    late = replace(found, passes={"gcivr": [0.5, math.inf]}, certificate=1e-9)
    assert late.shortfalls() == ["`gcivr` on a million rows, seed 0: 1e-06 in inf passes, 8 wanted"]
    doubtful = replace(late, passes={"gcivr": [0.5, 4.0]}, certificate=1e-4)
    assert doubtful.shortfalls() == [
        "a million rows, seed 0: certified to 1.0e-04 only, not to 1e-06",
    ]
    assert large_table([found]).count("\n") == 2


def test_the_best_of_ours_is_held_against_scipy():
    met, missed = (Race(INSTANCE, 1.0, 30, {"newton": best, "lbfgs": math.inf}) for best in (0.4, 0.8))
    assert (met.best, met.ratio, met.met) == ("newton", 0.4, True)
    assert not missed.met
    assert missed.shortfall == "seconds on a table, KL 1: 0.8 of scipy's, 0.5 wanted"
    assert not Race(INSTANCE, 1.0, 30, {}).met
    assert "| not in time |" in race_table([met])


def test_without_the_real_tables_there_is_a_word_about_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DROBENCH_DATA", str(tmp_path))
    with real_tables(tmp_path) as absent:
        assert "adult.data" in absent
