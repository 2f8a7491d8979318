"""Adversaries given by a conjugate: worst case, weights, price against cvxpy, and what follows from the conjugate."""

import math

import cvxpy as cp
import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from drobench.objective.ambiguity_sets import Chi2Penalty, CVaR, KLPenalty
from drobench.objective.divergence_prices import DivergencePrice
from drobench.objective.power_divergences import CressieReadPenalty
from drobench.objective.tail_risks import CappedChi2, CappedKL

GENERATOR = np.random.default_rng(5)
LOSSES = {
    "spread": GENERATOR.gamma(1.0, 1.0, 17),
    "ties": np.array([0.3, 0.3, 1.2, 1.2, 1.2, 0.1]),
    "equal": np.full(5, 0.7),
    "far": np.concatenate([GENERATOR.random(12), [9.0]]),
}


class Bought(DivergencePrice):
    """What a stranger would write: KL with slopes by hand, and nothing else."""

    gamma = 0.5

    def conjugate(self, excess):
        slopes = (excess / self.gamma).exp()
        return self.gamma * (slopes - 1.0), slopes


class Staircase(DivergencePrice):
    """Two caps: weights up to 1/m are free, and up to 3/m cost 0.2 each beyond; the conjugate has kinks."""

    slopes = "jump"
    largest_ratio = 3.0

    def conjugate(self, excess):
        free, paid = excess.clamp(min=0.0), (excess - 0.2).clamp(min=0.0)
        return free + 2.0 * paid, (excess > 0.0).to(excess.dtype) + 2.0 * (excess > 0.2).to(excess.dtype)


def price_of(adversary, ratios):
    """`phi` of each adversary as an expression of cvxpy, by its definition."""
    if isinstance(adversary, Bought):
        return adversary.gamma * (cp.kl_div(ratios, np.ones(ratios.size))), []
    if isinstance(adversary, Staircase):
        return 0.2 * cp.pos(ratios - 1.0), [ratios <= 3.0]
    if isinstance(adversary, CressieReadPenalty):
        order = adversary.order
        powers = cp.power(ratios, order, approx=False) - order * ratios + order - 1.0
        return adversary.gamma * powers / (order * (order - 1.0)), []
    cap = [ratios <= 1.0 / adversary.level]
    if isinstance(adversary, CappedKL):
        return adversary.gamma * cp.kl_div(ratios, np.ones(ratios.size)), cap
    return 0.5 * adversary.gamma * cp.square(ratios - 1.0), cap


ADVERSARIES = {
    "cressie_read_1.3": CressieReadPenalty(1.3, 0.4),
    "cressie_read_2": CressieReadPenalty(2.0, 0.4),
    "cressie_read_3": CressieReadPenalty(3.0, 0.4),
    "cressie_read_6": CressieReadPenalty(6.0, 1.0),
    "capped_kl": CappedKL(0.3, 0.4),
    "capped_chi2": CappedChi2(0.3, 0.4),
    "bought": Bought(),
    "staircase": Staircase(),
}


@pytest.fixture(params=ADVERSARIES)
def adversary(request):
    return ADVERSARIES[request.param]


@pytest.fixture(params=LOSSES)
def losses(request):
    return torch.from_numpy(LOSSES[request.param])


def test_worst_case_and_weights_are_those_of_a_convex_solver(adversary, losses):
    weights = cp.Variable(losses.numel(), nonneg=True)
    price, conditions = price_of(adversary, losses.numel() * weights)
    value = weights @ losses.numpy() - cp.sum(price) / losses.numel()
    program = cp.Problem(cp.Maximize(value), [cp.sum(weights) == 1, *conditions])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    assert float(adversary.worst_case(losses)) == pytest.approx(program.value, abs=2e-7)
    found = adversary.weights(losses)
    assert float(found.sum()) == pytest.approx(1.0, abs=1e-12)
    assert bool((found >= 0.0).all())
    # What the weights found are worth: not less than what the solver found, so they are a best reply.
    worth = float(found.dot(losses)) - adversary.penalty(found)
    assert worth == pytest.approx(float(adversary.worst_case(losses)), abs=1e-9)


def test_no_price_is_too_small(adversary):
    """A bound made of it must hold: `phi(t) >= t s - phi*(s)` for every `s` (Fenchel and Young)."""
    top = min(adversary.largest_ratio, 6.0)
    ratios = torch.linspace(0.0, top, 40, dtype=torch.float64)
    price, slope = adversary.price_and_slope(ratios)
    tries = torch.linspace(-4.0, 4.0, 801, dtype=torch.float64)[:, None]
    best = (ratios * tries - adversary.conjugate(tries)[0]).amax(dim=0)
    assert bool((price >= best - 1e-12).all())
    inside = slope.abs() < 4.0
    torch.testing.assert_close(price[inside], best[inside], rtol=0.0, atol=3e-4)


def test_the_price_by_bisection_is_the_closed_form():
    ratios = torch.tensor([0.0, 1e-6, 0.3, 1.0, 1.7, 3.0, 3.4], dtype=torch.float64)
    for adversary in (CappedKL(0.3, 0.4), CappedChi2(0.3, 0.4), CressieReadPenalty(1.6, 0.7), CressieReadPenalty(3, 1)):
        price, slope = adversary.price_and_slope(ratios)
        again, other = DivergencePrice.price_and_slope(adversary, ratios)
        torch.testing.assert_close(again, price, rtol=1e-12, atol=1e-12)
        inner = (ratios > 0.0) & (price < math.inf) & (ratios < adversary.largest_ratio)
        torch.testing.assert_close(other[inner], slope[inner], rtol=1e-9, atol=1e-9)
    assert float(CappedKL(0.3, 0.4).price_and_slope(ratios)[0][-1]) == math.inf
    assert CappedKL(0.5, 0.4).penalty(torch.tensor([0.9, 0.05, 0.05], dtype=torch.float64)) == math.inf


def test_slopes_and_bends_are_derivatives(adversary):
    excess = torch.linspace(-1.03, 1.01, 41, dtype=torch.float64)
    step = 1e-6
    differences = (adversary.conjugate(excess + step)[0] - adversary.conjugate(excess - step)[0]) / (2 * step)
    torch.testing.assert_close(adversary.conjugate(excess)[1], differences, rtol=1e-6, atol=1e-6)
    # Away from where the bend itself jumps.
    ends = [adversary.conjugate(excess + side * step)[1] for side in (1.0, -1.0)]
    bends = [adversary.bend(excess + side * step) for side in (1.0, -1.0)]
    calm = (bends[0] - bends[1]).abs() < 1e-3 * (1.0 + bends[0])
    assert int(calm.sum()) > 30
    torch.testing.assert_close(
        adversary.bend(excess)[calm], ((ends[0] - ends[1]) / (2 * step))[calm], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("width", [0.3, 0.01])
def test_the_smoothed_conjugate_is_the_envelope(adversary, width):
    excess = torch.linspace(-1.0, 1.0, 9, dtype=torch.float64)
    values, slopes = adversary.smoothed(excess, width)
    for at, value, slope in zip(excess, values, slopes, strict=True):

        def envelope(near, at=at):
            value = float(adversary.conjugate(torch.tensor(near, dtype=torch.float64))[0])
            return value + (float(at) - near) ** 2 / (2 * width)

        reach = 1.0 + 4.0 * width
        found = minimize_scalar(
            envelope, bounds=(float(at) - reach, float(at) + 1e-9), method="bounded", options={"xatol": 1e-12}
        )
        assert float(value) == pytest.approx(found.fun, abs=1e-7)
        step = 1e-7
        ends = [float(adversary.smoothed(at + side * step, width)[0]) for side in (1.0, -1.0)]
        assert float(slope) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-5)


def test_the_smoothed_bend_is_the_derivative_of_the_slope():
    """Of a hinge with the slope 1 / a, the envelope bends with 1 / width between 0 and width / a, and nowhere else."""

    class Hinge(DivergencePrice):
        slopes = "jump"
        largest_ratio = 4.0

        def conjugate(self, excess):
            return 4.0 * excess.clamp(min=0.0), 4.0 * (excess > 0.0).to(excess.dtype)

    excess = torch.tensor([-0.5, 0.1, 0.3, 0.9], dtype=torch.float64)
    expected = torch.tensor([0.0, 10.0, 10.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(Hinge().smoothed_bend(excess, 0.1), expected, rtol=1e-6, atol=1e-6)
    losses = torch.from_numpy(LOSSES["spread"])
    torch.testing.assert_close(Hinge().worst_case(losses), CVaR(0.25).worst_case(losses), rtol=1e-12, atol=0)
    torch.testing.assert_close(Hinge().weights(losses), CVaR(0.25).weights(losses), rtol=0, atol=1e-9)


def test_special_cases_are_older_adversaries(losses):
    for one, other in (
        (CressieReadPenalty(2.0, 0.6), Chi2Penalty(0.6)),
        (CappedKL(1e-9, 0.6), KLPenalty(0.6)),
        (CappedChi2(1e-9, 0.6), Chi2Penalty(0.6)),
        (Bought(), KLPenalty(0.5)),
    ):
        torch.testing.assert_close(one.worst_case(losses), other.worst_case(losses), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(one.weights(losses), other.weights(losses), rtol=1e-9, atol=1e-9)
    # Near its ends: order 1 is KL, and a smoothed CVaR with hardly a price is CVaR.
    torch.testing.assert_close(
        CressieReadPenalty(1.0 + 1e-6, 0.6).worst_case(losses), KLPenalty(0.6).worst_case(losses), rtol=1e-5, atol=0
    )
    bound = 1e-4 * math.log(1 / 0.3)
    for price in (CappedKL(0.3, 1e-4), CappedChi2(0.3, 1e-4)):
        assert 0.0 <= float(CVaR(0.3).worst_case(losses) - price.worst_case(losses)) <= bound + 1e-12


def test_nearest_weights_are_allowed(adversary):
    weights = torch.tensor([0.9, -0.1, 0.1, 0.2, 0.0], dtype=torch.float64)
    found = adversary.nearest(weights)
    assert float(found.sum()) == pytest.approx(1.0, abs=1e-9)
    assert adversary.penalty(found) < math.inf


@pytest.mark.parametrize("gamma", [1e-3, 1e-2])
def test_a_low_price_does_not_overflow(gamma):
    losses = torch.from_numpy(LOSSES["far"])

    class Cheap(Bought):
        pass

    Cheap.gamma = gamma
    torch.testing.assert_close(Cheap().worst_case(losses), KLPenalty(gamma).worst_case(losses), rtol=1e-10, atol=0)
    torch.testing.assert_close(Cheap().weights(losses), KLPenalty(gamma).weights(losses), rtol=1e-9, atol=1e-12)
    near = CressieReadPenalty(1.01, gamma)
    assert float(losses.mean()) < float(near.worst_case(losses)) <= float(losses.max())
