"""The released scripts, written once more with torch's own optimizer; and what their estimates amount to."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from constrained_samples import Fairness, HalfSpaces, Squares, randn, run, run_on_several, same, through_a_file

from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, FiniteSum
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Shard
from drobench.reformulation.constraints import SmoothedConstraints
from drobench.registry import NeedsNotMet, check_requirements
from drobench.solver import SingleProcess
from drobench.solver.solver import state_from_dict, state_to_dict, state_type
from drobench_plugins.solvers.gcivr_authors import GcivrAuthors, GcivrAuthorsConfig, entry

ALPHA, GAMMA = 1.2, 0.8


class Smoothed(Fairness):
    """The groups of `Fairness`, as a smoothed composite."""

    def __init__(self, alpha=ALPHA, gamma=GAMMA, biased=False, regularizer=None):
        super().__init__(regularizer)
        self.alpha, self.gamma, self.biased = alpha, gamma, biased
        self.composite = SmoothedConstraints(self.form, alpha, gamma, biased_extra_term=biased)

    def oracle(self, seed=0, shard=None):
        return CompositeOracle(self.composite, seed, self.start, shard or Shard())

    def inner(self, theta, groups):
        """Return the mean of the exponentials over some groups, with the constant by the rule in force."""
        powers = torch.stack([torch.exp(self.alpha * self.proxy(theta, group) / self.gamma) for group in groups])
        if self.biased:
            return (1.0 + powers.sum()) / (len(groups) + 1)
        return 1.0 / (self.groups + 1) + self.groups / (self.groups + 1) * powers.mean()


def solver_of(**settings):
    return GcivrAuthors(GcivrAuthorsConfig(**settings))


def with_slope(function, theta):
    """Return value and gradient by automatic differentiation."""
    point = theta.detach().requires_grad_()
    with torch.enable_grad():
        value = function(point)
        return value.detach(), torch.autograd.grad(value, point)[0]


def script(problem, steps, seed, *, refresh_every=None, size=None, rate=0.01, weight_decay=0.0):
    """Return the points of the script: plain loops, and torch's Adagrad on a gradient that is written into place."""
    generator = np.random.default_rng(seed)
    everybody = range(problem.groups)
    value, slope = torch.as_tensor(generator.random(1)), torch.zeros(3).double()
    theta = problem.start.clone().requires_grad_()
    optimizer = torch.optim.Adagrad([theta], lr=rate, weight_decay=weight_decay)
    previous, points = theta.detach().clone(), []
    for step in range(steps):
        if refresh_every is not None and step % refresh_every == 0:
            value, slope = with_slope(lambda x: problem.inner(x, everybody), theta)
        else:
            drawn = everybody if size is None else generator.integers(0, problem.groups, size).tolist()
            here = with_slope(lambda x, drawn=drawn: problem.inner(x, drawn), theta)
            there = with_slope(lambda x, drawn=drawn: problem.inner(x, drawn), previous)
            value, slope = value + here[0] - there[0], slope + here[1] - there[1]
        previous = theta.detach().clone()
        theta.grad = slope / value + with_slope(problem.loss, theta)[1]
        optimizer.step()
        points.append(theta.detach().clone())
    return torch.stack(points)


def points_of(states):
    return torch.stack([state.point for state in states[1:]])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.1, "learning_rate": 0.05},
        {"constraint_batch": 3},
        {"refresh_every": 5, "constraint_batch": 3},
        {"refresh_every": 1},
    ],
    ids=str,
)
def test_it_follows_the_script(settings, biased, seed):
    problem = Smoothed(biased=biased)
    states = run(solver_of(**settings), problem.oracle(seed), problem.start, 30)
    expected = script(
        problem,
        30,
        seed,
        refresh_every=settings.get("refresh_every"),
        size=settings.get("constraint_batch"),
        rate=settings.get("learning_rate", 0.01),
        weight_decay=settings.get("weight_decay", 0.0),
    )
    torch.testing.assert_close(points_of(states), expected, rtol=1e-9, atol=1e-11)
    assert float((expected[-1] - problem.start).norm()) > 0.05


def test_without_a_refresh_the_estimates_keep_the_error_of_their_start():
    problem = Smoothed()
    oracle = problem.oracle(3)
    states = run(solver_of(), oracle, problem.start, 40)
    first = float(np.random.default_rng(3).random(1)[0])
    assert float(states[0].inner_value) == first
    assert not states[0].inner_jacobian.any()
    groups = range(problem.groups)
    value, slope = with_slope(lambda x: problem.inner(x, groups), problem.start)
    # The estimates of a state are those at the point that its step began from.
    here, slope_here = with_slope(lambda x: problem.inner(x, groups), states[-1].previous)
    torch.testing.assert_close(states[-1].inner_value[0], first + here - value, rtol=1e-11, atol=0)
    torch.testing.assert_close(states[-1].inner_jacobian[0], slope_here - slope, rtol=1e-9, atol=1e-12)
    assert abs(float(states[-1].inner_value - here)) > 0.05, "the true value is another one"


def test_with_a_refresh_in_every_step_the_direction_is_the_true_gradient():
    problem = Smoothed()
    state = run(solver_of(refresh_every=1, drop_gamma=False), problem.oracle(), problem.start, 1)[-1]
    torch.testing.assert_close(state.squares.sqrt(), problem.composite.smooth_gradient(problem.start).abs())


def test_the_width_counts_only_as_a_share_of_the_weight():
    """`alpha = 0.1`, `gamma = 500` without the factor gamma is `alpha = 2e-4` at width 1, with or without it."""
    traces = [
        points_of(run(solver_of(refresh_every=4, drop_gamma=drop), problem.oracle(1), problem.start, 12))
        for problem, drop in ((Smoothed(0.1, 500.0), True), (Smoothed(2e-4, 1.0), True), (Smoothed(2e-4, 1.0), False))
    ]
    torch.testing.assert_close(traces[0], traces[1], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(traces[1], traces[2], rtol=1e-9, atol=1e-12)
    kept = points_of(
        run(solver_of(refresh_every=4, drop_gamma=False), Smoothed(0.1, 500.0).oracle(1), Smoothed().start, 12)
    )
    assert float((kept - traces[0]).abs().max()) > 1e-4


def test_a_regularizer_is_applied_by_its_proximal_map():
    plain, shrunk = (Smoothed(regularizer=regularizer) for regularizer in (Zero(), ElasticNet(0.0, 2.0)))
    first, second = (run(solver_of(), problem.oracle(), problem.start, 1)[-1].point for problem in (plain, shrunk))
    torch.testing.assert_close(second, first / (1.0 + 0.01 * 2.0), rtol=1e-13, atol=0)


class TestCost:
    @pytest.mark.parametrize(
        ("settings", "samples", "checks"),
        [
            ({}, 10 * 40, 10 * 2 * 7),
            ({"constraint_batch": 3}, 10 * 40, 10 * 2 * 3),
            ({"refresh_every": 5, "constraint_batch": 3}, 10 * 40, 2 * 7 + 8 * 2 * 3),
            ({"whole_samples": False, "batch": 6, "constraint_batch": 3}, 10 * 6, 10 * 2 * 3),
        ],
    )
    def test_the_objective_is_paid_for_once_a_step_and_constraints_twice(self, settings, samples, checks):
        oracle = Smoothed().oracle()
        run(solver_of(**settings), oracle, Smoothed().start, 10)
        counters = oracle.counters
        assert (counters.sample_calls, counters.loss_gradients) == (samples, samples)
        assert (counters.constraint_checks, counters.inner_jacobians) == (checks, checks)
        assert counters.projections == 0


class Spy(CompositeOracle):
    """Notes the rows it is asked about."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.seen = []

    def estimate(self, points, rows, shift=None):
        self.seen.append(rows)
        return super().estimate(points, rows, shift)


def three_queries():
    """Return three samples with two constraints each."""
    form = Constrained(
        FiniteSum(Squares(randn(3, 2, seed=0)), Zero()), HalfSpaces(randn(6, 2, seed=1), torch.ones(6).double())
    )
    return Spy(SmoothedConstraints(form, 0.1, 500.0), 0, torch.zeros(2).double())


class TestInTurn:
    def test_each_query_comes_with_its_own_constraints(self):
        oracle = three_queries()
        run(solver_of(in_turn=True, whole_samples=False), oracle, torch.zeros(2).double(), 4)
        here, there = oracle.seen[::2], oracle.seen[1::2]
        assert [rows.samples.tolist() for rows in here] == [[0], [1], [2], [0]]
        assert [rows.constraints.tolist() for rows in here] == [[0, 1], [2, 3], [4, 5], [0, 1]]
        assert [rows.constraints.tolist() for rows in there] == [rows.constraints.tolist() for rows in here]
        assert all(rows.samples is None for rows in there)

    def test_the_objective_can_be_on_all_samples_nevertheless(self):
        oracle = three_queries()
        run(solver_of(in_turn=True, batch=2), oracle, torch.zeros(2).double(), 2)
        assert [rows.samples for rows in oracle.seen[::2]] == [slice(None)] * 2
        assert [rows.constraints.tolist() for rows in oracle.seen[::2]] == [[0, 1, 2, 3], [4, 5, 0, 1]]

    def test_it_needs_as_many_constraints_for_each_sample(self):
        with pytest.raises(DrobenchError, match=r"found 7 constraints and 40 samples\. Use in_turn=false"):
            run(solver_of(in_turn=True), Smoothed().oracle(), Smoothed().start, 0)


class TestNoSafeguard:
    def test_an_inner_value_below_zero_turns_the_direction_round(self):
        problem = Smoothed()
        solver, oracle = solver_of(), problem.oracle()
        state = run(solver, oracle, problem.start, 5)[-1]
        moves = []
        for sign in (1.0, -1.0):
            pushed = replace(
                state,
                inner_value=torch.tensor([sign * 0.5]).double(),
                # So large that the objective hardly matters.
                inner_jacobian=torch.full((1, 3), 1e3).double(),
                squares=torch.zeros(3).double(),
            )
            moves.append(solver.step(pushed, oracle, SingleProcess()).point - state.point)
        # The first step of Adagrad is as long as the rate, in every coordinate.
        torch.testing.assert_close(moves[0], torch.full((3,), -0.01, dtype=torch.float64), rtol=1e-9, atol=0)
        torch.testing.assert_close(moves[1], torch.full((3,), 0.01, dtype=torch.float64), rtol=1e-9, atol=0)

    def test_an_iterate_that_is_no_number_shows_as_such(self):
        problem = Smoothed()
        solver, oracle = solver_of(), problem.oracle()
        state = run(solver, oracle, problem.start, 3)[-1]
        state = replace(state, inner_value=torch.tensor([torch.nan]).double())
        after = solver.step(state, oracle, SingleProcess())
        assert not solver.solution(after).isfinite().any()

    def test_exponentials_that_would_overflow_are_held_at_a_shift(self):
        steep, mild = (Smoothed(alpha, 1e-3) for alpha in (2.0, 1e-6))
        state = run(solver_of(refresh_every=4), steep.oracle(), 30.0 * steep.start, 3)[-1]
        assert float(state.shift) > 0
        assert all(tensor.isfinite().all() for tensor in (state.point, state.inner_value, state.inner_jacobian))
        assert float(run(solver_of(), mild.oracle(), mild.start, 3)[-1].shift) == 0


@pytest.mark.parametrize(
    "settings", [{}, {"constraint_batch": 3}, {"refresh_every": 4, "constraint_batch": 5}], ids=str
)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("parts", [2, 3])
def test_several_processes_do_what_one_does(settings, biased, parts):
    problem = Smoothed(biased=biased)
    alone = run(solver_of(**settings), problem.oracle(2), problem.start, 12)[-1]
    for state, _, _ in run_on_several(solver_of(**settings), problem, parts, 2, 12):
        torch.testing.assert_close(state.point, alone.point, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(state.inner_value, alone.inner_value, rtol=1e-10, atol=1e-12)


def test_a_run_continues_from_a_checkpoint_as_if_never_stopped():
    problem, solver = Smoothed(), solver_of(refresh_every=6, constraint_batch=2)
    whole = run(solver, problem.oracle(5), problem.start, 20)
    oracle = problem.oracle(5)
    stopped = run(solver, oracle, problem.start, 8)[-1]
    saved = through_a_file({"state": state_to_dict(stopped), "oracle": oracle.state_dict()})
    resumed = problem.oracle(99)
    resumed.load_state_dict(saved["oracle"])
    state = state_from_dict(state_type(solver), saved["state"])
    assert same(state, stopped)
    for expected in whole[9:]:
        state = solver.step(state, resumed, SingleProcess())
        assert same(state, expected)


def test_it_is_about_constraints_only(synthetic):
    data = synthetic(30, 3, 0)
    with pytest.raises(NeedsNotMet, match=r"'gcivr_authors' requires .*: constraints, that is, at least one"):
        check_requirements(entry(), data.kl(0.5, Zero()))


def test_the_entry_says_what_it_is():
    found = entry()
    assert found.name == "gcivr_authors"
    assert "as the released scripts have it" in found.summary
    assert found.accepts == (Composite,)
    assert isinstance(found.factory(found.config()), GcivrAuthors)
