"""Draws by the worst case and by leverage: unbiased for every form, right weights, and less error on rare columns."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from drobench.errors import DrobenchError, SettingError
from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty, Chi2Variance, CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum, RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Margin, NetworkLosses
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Rows, Shard
from drobench.objective.streamed_losses import StreamedLosses
from drobench.objective.wasserstein import WassersteinRisk
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess, check_weighted, hessian, leverage_draws, refresh, weighted_draws
from drobench.solver.metric_prox import metric_factor

ROWS, COLUMNS, DUAL, WIDTH, STEP = 40, 4, 0.8, 0.5, 1e-5
SHARE, LEVERAGE_SHARE = 0.5, 0.8


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 100 * seed), dtype=torch.float64)


def linear(loss=None):
    return LinearMarginLosses(noise(ROWS, COLUMNS), noise(ROWS).sign(), loss or LogisticLoss())


def softplus(x):
    return WIDTH * np.logaddexp(0.0, x / WIDTH)


def logistic(margins):
    return np.logaddexp(0.0, -margins)


# Of every form, in numpy: each row's `g` and `h` by its loss, and `f`; dual variables are fixed.
TEXTS = {
    "KLPenalty": (lambda v: (np.exp(v / 0.3), 0.0 * v), lambda y: 0.3 * np.log(y)),
    "KLBall": (lambda v: (np.exp(v / DUAL), 0.0 * v), lambda y: DUAL * np.log(y)),
    "Chi2Variance": (lambda v: (v, v + v**2 / 4.0), lambda y: -(y**2) / 4.0),
    "Chi2Penalty": (lambda v: (0.0 * v, np.maximum(v - DUAL + 0.4, 0.0) ** 2 / 0.8), lambda y: 0.0 * y),
    "Chi2Ball": (lambda v: (np.maximum(v - DUAL, 0.0) ** 2, 0.0 * v), lambda y: np.sqrt(1.4 * (y + WIDTH**2))),
    "CVaR": (lambda v: (0.0 * v, softplus(v - DUAL) / 0.3), lambda y: 0.0 * y),
    "W2": (lambda v: (0.0 * v, logistic(v) + softplus(v - DUAL)), lambda y: 0.0 * y),
    "plain": (lambda v: (0.0 * v, v), lambda y: 0.0 * y),
}
SETS = [KLPenalty(0.3), KLBall(0.3), Chi2Variance(2.0), Chi2Penalty(0.4), Chi2Ball(0.2), CVaR(0.3)]
OPTIONS = ReformulationConfig(gamma=WIDTH)
CONVEX_WITHOUT_OUTER = ["Chi2Penalty", "CVaR", "plain"]


def form_of(name):
    known = {type(ambiguity).__name__: RobustRisk(linear(), ambiguity, Zero()) for ambiguity in SETS}
    known["W2"] = WassersteinRisk(linear(Margin()), 0.1, 1.0, "l2", ElasticNet())
    known["plain"] = FiniteSum(linear(), Zero())
    return known[name]


class Case:
    """A form, a point, and what was measured there on all rows."""

    def __init__(self, form, point=None, shard=None, communicator=None, options=OPTIONS):
        self.form = find_route(form, (Composite,), options).form
        self.point = 0.5 * noise(self.form.dimension, seed=3) if point is None else point
        if point is None and self.form.dimension > COLUMNS:
            self.point[COLUMNS] = DUAL
        self.oracle = CompositeOracle(self.form, 0, self.point, shard or Shard())
        self.communicator = communicator or SingleProcess()
        self.rows = self.oracle.draw()
        self.estimates = refresh(self.oracle, self.communicator, self.point, self.rows)
        self.shift = self.estimates.shift
        self.outer = self.oracle.outer_gradient(self.estimates.inner_value, self.shift)
        self.at = self.point, self.rows, self.outer, self.shift
        self.found = self.oracle, self.communicator, self.point, self.estimates, self.rows

    def factor(self):
        return metric_factor(self.oracle, hessian(*self.found), self.point)

    def by(self, kind):
        """Return the draws, and the chances they stand for."""
        draws = weighted_draws(*self.found) if kind == "worst case" else leverage_draws(*self.found, self.factor())
        return draws, np.diff(draws.cumulative.numpy(), prepend=0.0)

    def outcomes(self, kind):
        """Yield every outcome of a draw of size one with its probability."""
        draws, chances = self.by(kind)
        for middle, chance in zip(draws.cumulative.numpy() - 0.5 * chances, chances, strict=True):
            self.oracle.generator = SimpleNamespace(random=lambda size, middle=middle: np.full(size, middle))
            yield chance, draws.draw(self.oracle, 1)


def text_of(name, case):
    """Return margins, losses, `phi_i = h_i + f'(y) g_i` by the loss, and the objective by all losses."""
    terms, outer = TEXTS[name]
    margins = case.form.losses.signed_rows.numpy() @ case.point[:COLUMNS].numpy()
    losses = margins if name == "W2" else logistic(margins)
    y = terms(losses)[0].mean()
    slope = (outer(y + STEP) - outer(y - STEP)) / (2 * STEP)

    def objective(values):
        inner, loss = terms(values)
        return outer(inner.mean()) + loss.mean()

    return margins, losses, (lambda values: terms(values)[1] + slope * terms(values)[0]), objective


@pytest.mark.parametrize("kind", ["worst case", "leverage"])
@pytest.mark.parametrize("name", TEXTS)
def test_means_over_all_outcomes_of_a_draw_are_the_means_over_all_rows(name, kind):
    case = Case(form_of(name))
    points = torch.stack([case.point, case.point + 0.1 * noise(case.point.numel(), seed=4)])
    vector = noise(case.point.numel(), seed=5)

    def seen(rows):
        means = case.oracle.estimate(points, rows, case.shift)
        change = case.oracle.change(points, rows, case.shift)
        at = case.point, rows, case.outer, case.shift
        matrix, product = case.oracle.hessian(*at), case.oracle.hessian_product(*at, vector)
        assert torch.equal(means.shift, case.shift)
        value, gradient = case.point.new_tensor(change.inner_value), change.loss_gradient
        moved = [value, change.inner_jacobian, case.point[:0] if gradient is None else gradient]
        return torch.cat([part.flatten() for part in (*means[:4], *moved, matrix, product)])

    found = sum(chance * seen(rows) for chance, rows in case.outcomes(kind))
    torch.testing.assert_close(found, seen(case.rows), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["KLPenalty", "KLBall", "CVaR"])
def test_several_draws_at_once_are_unbiased_too(name):
    case, repetitions = Case(form_of(name)), 1000
    draws, points = case.by("worst case")[0], torch.stack([case.point, case.point + 0.1])

    def seen(rows):
        return torch.cat([part.flatten() for part in case.oracle.estimate(points, rows, case.shift)[:4]])

    values = torch.stack([seen(draws.draw(case.oracle, 7)) for _ in range(repetitions)])
    error = values.std(dim=0) / repetitions**0.5
    assert bool(((values.mean(dim=0) - seen(case.rows)).abs() <= 4.0 * error + 1e-12).all())


@pytest.mark.parametrize("name", TEXTS)
def test_the_weight_of_a_row_is_the_derivative_of_the_objective_by_its_loss(name):
    case = Case(form_of(name))
    _, losses, _, objective = text_of(name, case)
    slopes = [(objective(losses + STEP * u) - objective(losses - STEP * u)) / (2 * STEP) for u in np.eye(ROWS)]
    weights = case.oracle.row_weights(*case.at)
    np.testing.assert_allclose(weights.numpy(), np.abs(slopes), rtol=1e-6, atol=1e-9)
    if name == "KLPenalty":
        np.testing.assert_allclose(weights.numpy(), softmax(losses / 0.3), rtol=1e-12)
    expected = (1.0 - SHARE) / ROWS + SHARE * np.abs(slopes) / np.abs(slopes).sum()
    np.testing.assert_allclose(case.by("worst case")[1], expected, rtol=1e-6)


@pytest.mark.parametrize("name", TEXTS)
def test_leverages_are_those_of_numpy(name):
    case = Case(form_of(name))
    factor, (margins, _, phi, _), step = case.factor(), text_of(name, case), 1e-4

    def of_margin(values):
        return phi(values if name == "W2" else logistic(values))

    bends = (of_margin(margins + step) - 2.0 * of_margin(margins) + of_margin(margins - step)) / step**2
    rows, metric = case.form.losses.signed_rows.numpy(), (factor @ factor.T).numpy()[:COLUMNS, :COLUMNS]
    expected = bends * np.einsum("ij,jk,ik->i", rows, np.linalg.inv(metric), rows) / ROWS
    found = case.oracle.leverages(*case.at, factor).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    if name in CONVEX_WITHOUT_OUTER:
        assert found.sum() == pytest.approx(COLUMNS)
        assert (found <= 1.0 + 1e-12).all()
    expected = (1.0 - LEVERAGE_SHARE) / ROWS + LEVERAGE_SHARE * found / found.sum()
    np.testing.assert_allclose(case.by("leverage")[1], expected, rtol=1e-9)


def test_streamed_rows_have_the_same_leverages_and_networks_none():
    rows, signs = noise(ROWS, COLUMNS), noise(ROWS).sign()
    parts = StreamedLosses(lambda index: LinearMarginLosses(rows[index], signs[index], LogisticLoss()), ROWS, 7)
    streamed, whole = (Case(RobustRisk(losses, KLPenalty(0.3), Zero())) for losses in (parts, linear()))
    np.testing.assert_allclose(streamed.by("leverage")[1], whole.by("leverage")[1], rtol=1e-12)
    network = NetworkLosses(lambda point, some: some @ point, COLUMNS, rows, signs, LogisticLoss())
    case = Case(RobustRisk(network, KLPenalty(0.3), Zero()))
    assert (case.oracle.weighs_rows, case.oracle.has_leverages) == (True, False)
    with pytest.raises(DrobenchError, match="NetworkLosses has no leverages"):
        case.oracle.leverages(*case.at, torch.eye(COLUMNS))


@pytest.mark.parametrize("rare", [True, False], ids=["along the rare column", "anywhere"])
def test_the_error_of_a_change_is_below_its_bound_where_uniform_draws_are_far_above(rare):
    """The mean square of the error in the metric over that of a short move; three of 500 rows know the last column."""
    rows = noise(500, 6)
    rows[:, -1] = 0.0
    rows[[10, 200, 333], -1] = 1.0
    losses = LinearMarginLosses(rows, noise(500).sign(), LogisticLoss())
    case = Case(FiniteSum(losses, Zero()), torch.full((6,), 0.3, dtype=torch.float64))
    factor, (draws, _) = case.factor(), case.by("leverage")
    move = torch.eye(6, dtype=torch.float64)[-1] if rare else noise(6, seed=9)
    points = torch.stack([case.point + 1e-5 * move / (factor.T @ move).norm(), case.point])
    whole = case.oracle.change(points, case.rows, case.shift).loss_gradient

    def square(rows):
        error = 1e5 * (case.oracle.change(points, rows, case.shift).loss_gradient - whole)
        return float(torch.linalg.solve_triangular(factor, error[:, None], upper=False).square().sum())

    bound = 6.0 / LEVERAGE_SHARE
    assert 0.1 * bound < np.mean([40 * square(draws.draw(case.oracle, 40)) for _ in range(300)]) < bound
    assert 0.1 * bound < sum(chance * square(some) for chance, some in case.outcomes("leverage")) < bound
    if rare:
        assert np.mean([square(Rows(torch.tensor([row]))) for row in range(500)]) > 5.0 * bound


@pytest.mark.parametrize("spoilt", ["zero", "nan", "inf"])
def test_weights_that_say_nothing_leave_all_rows_alike(spoilt):
    point = 0.1 * noise(COLUMNS + 1, seed=3)
    # Far above all losses, none of which counts; or no number at all.
    point[COLUMNS] = 1000.0
    if spoilt != "zero":
        point[0] = float(spoilt)
    case = Case(form_of("Chi2Penalty"), point)
    for draws in (weighted_draws(*case.found), leverage_draws(*case.found, torch.eye(COLUMNS + 1).double())):
        np.testing.assert_allclose(draws.cumulative.numpy(), np.arange(1, ROWS + 1) / ROWS, rtol=1e-12)


def test_forms_over_constraints_or_groups_are_refused_with_the_remedy():
    literal = Case(form_of("W2"), options=ReformulationConfig(gamma=WIDTH, wasserstein="literal"))
    groups = Case(RobustRisk(linear(), GroupAdversary(torch.arange(ROWS) % 3, KLPenalty(0.3)), Zero()))
    for case in (literal, groups):
        with pytest.raises(SettingError, match=r"anybody: solver\.sampling=weighted .* Use solver\.sampling=uniform"):
            check_weighted(case.oracle, "anybody")
        with pytest.raises(DrobenchError, match="no weights of single rows"):
            case.oracle.row_weights(*case.at)
    check_weighted(Case(form_of("W2")).oracle, "anybody")


def test_right_after_a_sweep_chances_cost_no_call_and_elsewhere_one_a_row():
    counters = (case := Case(form_of("KLPenalty"))).oracle.counters
    case.by("worst case")
    assert (counters.sample_calls, counters.hessian_rows) == (ROWS, 0)
    case.by("leverage")
    assert (counters.sample_calls, counters.hessian_rows) == (ROWS, 2 * ROWS)
    weighted_draws(case.oracle, SingleProcess(), case.point + 1.0, case.estimates, case.rows)
    assert counters.sample_calls == 2 * ROWS
    # The same rows, but not those of the sweep: nobody has looked at them yet.
    leverage_draws(case.oracle, SingleProcess(), case.point, case.estimates, case.oracle.draw(), case.factor())
    assert counters.sample_calls == 3 * ROWS
    rows, before = case.by("worst case")[0].draw(case.oracle, 7), counters.sample_calls
    case.oracle.change(torch.stack([case.point, case.point + 1.0]), rows, case.shift)
    assert counters.sample_calls == before + 2 * rows.samples.numel()


class Part(SingleProcess):
    """One of two processes, as a thread that meets the other in every exchange."""

    world_size = 2

    def __init__(self, rank, barrier, board):
        super().__init__()
        self.rank, self.barrier, self.board = rank, barrier, board

    def total(self, tensors, pair=torch.add):
        self.board[self.rank] = list(tensors)
        self.barrier.wait(10)
        found = [pair(one, other) for one, other in zip(*self.board, strict=True)]
        self.barrier.wait(10)
        return found

    def maximum(self, tensor):
        return self.total([tensor], torch.maximum)[0]


@pytest.mark.parametrize("kind", ["worst case", "leverage"])
@pytest.mark.parametrize("name", ["KLPenalty", "KLBall", "W2"])
def test_two_processes_find_the_chances_and_the_draw_of_one(name, kind):
    barrier, board = threading.Barrier(2), [None, None]

    def part(rank):
        case = Case(form_of(name), None, Shard(rank, 2), Part(rank, barrier, board))
        draws, chances = case.by(kind)
        return chances, draws.draw(case.oracle, 9), case.oracle

    with ThreadPoolExecutor(2) as pool:
        (one, first, oracle), (other, second, _) = pool.map(part, range(2))
    draws, chances = (alone := Case(form_of(name))).by(kind)
    rows = draws.draw(alone.oracle, 9)
    np.testing.assert_allclose(one, chances, rtol=1e-9)
    np.testing.assert_array_equal(one, other)
    assert torch.equal(torch.cat([first.samples, second.samples]), rows.samples)
    torch.testing.assert_close(torch.cat([first.sample_weights, second.sample_weights]), rows.sample_weights)
    assert oracle.totals == alone.oracle.counters
