"""Every adversary that reweights samples, against an interior-point solver, in its limits and on known numbers."""

import math

import cvxpy
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from drobench.objective.ambiguity_sets import (
    Chi2Ball,
    Chi2Penalty,
    Chi2Variance,
    CVaR,
    KLBall,
    KLPenalty,
)
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.regularizers import Zero

BALLS = (KLBall(0.05), KLBall(0.3), Chi2Ball(0.1), Chi2Ball(0.5), Chi2Ball(3.0), CVaR(0.1), CVaR(0.3), CVaR(0.77))
PENALTIES = (KLPenalty(0.3), Chi2Penalty(0.05), Chi2Penalty(0.4), Chi2Penalty(5.0))
SETS = BALLS + PENALTIES
RADII = st.sampled_from([0.01, 0.05, 0.3, 0.5, 3.0])
PRICES = st.sampled_from([0.05, 0.25, 0.4, 2.0, 20.0])
KINDS = {
    "kl_ball": st.builds(KLBall, RADII),
    "chi2_ball": st.builds(Chi2Ball, RADII),
    "cvar": st.builds(CVaR, st.sampled_from([0.04, 0.1, 0.3, 0.77, 1.0])),
    "kl_penalty": st.builds(KLPenalty, PRICES),
    "chi2_penalty": st.builds(Chi2Penalty, PRICES),
}
# Twelve digits are given.
DIGITS = 1e-11


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def loss_vectors(draw, smallest=1):
    """Draw up to twelve losses on a grid, so that ties occur, and their scale."""
    steps = draw(st.lists(st.integers(-300, 300), min_size=smallest, max_size=12))
    return draw(st.sampled_from([1e-5, 1e-2, 10.0])) * torch.tensor(steps, dtype=torch.float64)


def divergence_of(ambiguity, weights):
    """The adversary's divergence as an expression; constraints come second."""
    count = weights.size
    if isinstance(ambiguity, KLBall | KLPenalty):
        return -cvxpy.sum(cvxpy.entr(weights)) + math.log(count) * cvxpy.sum(weights)
    return 0.5 * count * cvxpy.sum_squares(weights - 1.0 / count)


def primal(ambiguity, losses):
    """Maximise over the simplex what the adversary maximises, with the definitions only."""
    weights = cvxpy.Variable(losses.numel())
    conditions, price = [cvxpy.sum(weights) == 1], 0.0
    if not isinstance(ambiguity, Chi2Variance):
        conditions.append(weights >= 0)
    if isinstance(ambiguity, CVaR):
        conditions.append(weights <= 1.0 / (ambiguity.level * losses.numel()))
    elif isinstance(ambiguity, KLBall | Chi2Ball):
        conditions.append(divergence_of(ambiguity, weights) <= ambiguity.radius)
    else:
        price = ambiguity.gamma * divergence_of(ambiguity, weights)
    program = cvxpy.Problem(cvxpy.Maximize(weights @ losses.numpy() - price), conditions)
    return program.solve(solver="CLARABEL")


def divergence_value(ambiguity, weights):
    """The divergence itself, by numbers."""
    count = weights.numel()
    if isinstance(ambiguity, KLBall | KLPenalty):
        return float(torch.special.xlogy(weights, weights * count).sum())
    return 0.5 * count * float((weights - 1.0 / count).square().sum())


def is_allowed(ambiguity, weights):
    """Whether weights on the simplex are in the adversary's set, from the definition."""
    if isinstance(ambiguity, CVaR):
        return float(weights.max()) <= max(1.0 / ambiguity.level, 1.0) / weights.numel() + 1e-15
    return not isinstance(ambiguity, KLBall | Chi2Ball) or divergence_value(ambiguity, weights) <= (
        ambiguity.radius + 1e-9
    )


def attained(ambiguity, losses, weights):
    """The adversary's objective at `weights`, from the definition."""
    price = getattr(ambiguity, "gamma", 0.0) * divergence_value(ambiguity, weights)
    return float(weights @ losses) - price


@pytest.fixture(scope="module")
def t20():
    """The specification's twenty logistic losses."""
    i = torch.arange(1, 21, dtype=torch.float64)[:, None]
    k = torch.arange(1, 4, dtype=torch.float64)[None]
    rows = torch.sin(i * k) + 0.5 * torch.cos(2 * i + k)
    signs = torch.where(torch.sin(3 * i[:, 0]) + 0.3 > 0, 1.0, -1.0).double()
    return LinearMarginLosses(rows, signs, LogisticLoss())


HAT = tensor(0.5, -0.25, 0.1)


class TestKnownAnswers:
    @pytest.mark.parametrize(
        ("ambiguity", "value", "gradient"),
        [
            (Chi2Variance(2.0), 0.668701684837, [0.070732096482, -0.025056872010, -0.340978380213]),
            (Chi2Penalty(2.0), 0.668701684837, [0.070732096482, -0.025056872010, -0.340978380213]),
            (Chi2Variance(0.25), 0.739447007365, [0.331086069129, -0.090160820743, -0.444739491872]),
            (Chi2Penalty(0.25), 0.739174962650, [0.324947528111, -0.087163776855, -0.442957033689]),
        ],
        ids=str,
    )
    def test_value_and_gradient_of_chi_square(self, t20, ambiguity, value, gradient):
        form = RobustRisk(t20, ambiguity, Zero())
        assert float(form.value(HAT)) == pytest.approx(value, abs=DIGITS)
        assert form.smooth_gradient(HAT).tolist() == pytest.approx(gradient, abs=DIGITS)

    @pytest.mark.parametrize(
        ("ambiguity", "value", "accuracy"),
        [
            (Chi2Ball(0.5), 0.8551263738, 1e-9),
            (KLBall(0.5), 0.8684732744, 1e-9),
            (CVaR(0.25), 0.933799579867, DIGITS),
            (CVaR(0.1), 1.055324882281, DIGITS),
        ],
        ids=str,
    )
    def test_value_of_balls_and_tails(self, t20, ambiguity, value, accuracy):
        assert float(ambiguity.worst_case(t20.values(HAT))) == pytest.approx(value, abs=accuracy)

    def test_the_minimising_threshold_and_temperature(self, t20):
        losses = t20.values(HAT)
        assert float(Chi2Penalty(0.25).threshold(losses)) == pytest.approx(0.662467348253, abs=DIGITS)
        assert KLBall(0.5).temperature(losses) == pytest.approx(0.211736, abs=1e-6)

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_the_gradient_is_that_of_the_value(self, t20, ambiguity):
        form = RobustRisk(t20, ambiguity, Zero())
        # Halves of one step: an error of second order shows a factor of four, a wrong gradient none.
        numeric = torch.stack(
            [(form.value(HAT + step) - form.value(HAT - step)) / 2e-6 for step in 1e-6 * torch.eye(3).double()]
        )
        torch.testing.assert_close(form.smooth_gradient(HAT), numeric, rtol=0, atol=1e-7)


class TestPrimal:
    @pytest.mark.parametrize("ambiguity", [*BALLS, *PENALTIES[1:], Chi2Variance(0.4)], ids=str)
    def test_the_worst_case_is_that_of_the_primal_problem(self, ambiguity, random_points):
        for count in (1, 2, 7, 30):
            for seed, scale in ((0, 1.0), (1, 0.1), (2, 4.0)):
                losses = scale * random_points(seed, count)
                expected = primal(ambiguity, losses)
                assert float(ambiguity.worst_case(losses)) == pytest.approx(expected, abs=1e-6 * max(scale, 1.0))

    @pytest.mark.parametrize("kind", KINDS)
    @given(data=st.data(), losses=loss_vectors())
    def test_the_weights_are_allowed_and_attain_the_worst_case(self, kind, data, losses):
        ambiguity = data.draw(KINDS[kind])
        scale = float(losses.abs().max())
        weights = ambiguity.weights(losses)
        assert float(weights.min()) >= 0.0
        assert float(weights.sum()) == pytest.approx(1.0, abs=1e-12)
        assert is_allowed(ambiguity, weights)
        reached = attained(ambiguity, losses, weights)
        assert reached == pytest.approx(float(ambiguity.worst_case(losses)), abs=1e-8 * scale, rel=1e-10)

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_so_they_are_for_a_thousand_losses_of_any_scale(self, ambiguity, random_points):
        for seed, scale in ((3, 1.0), (4, 1e-3), (5, 1e3)):
            losses = scale * random_points(seed, 1000)
            weights = ambiguity.weights(losses)
            assert float(weights.sum()) == pytest.approx(1.0, abs=1e-12)
            assert is_allowed(ambiguity, weights)
            reached = attained(ambiguity, losses, weights)
            assert reached == pytest.approx(float(ambiguity.worst_case(losses)), abs=1e-8 * scale, rel=1e-10)

    @pytest.mark.parametrize("kind", KINDS)
    @given(data=st.data(), losses=loss_vectors(smallest=2))
    def test_no_other_allowed_weights_are_worse(self, kind, data, losses):
        """Weak duality: whatever the adversary may play is a lower bound of the worst case."""
        ambiguity, count = data.draw(KINDS[kind]), losses.numel()
        shares = torch.tensor(data.draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
        assume(int(shares.sum()) > 0)
        uniform = torch.full((count,), 1.0 / count, dtype=torch.float64)
        other = shares / shares.sum().double()
        # Towards the centre every set is entered.
        while not is_allowed(ambiguity, other):
            other = uniform + 0.5 * (other - uniform)
        worst, size = float(ambiguity.worst_case(losses)), float(losses.abs().max())
        assert attained(ambiguity, losses, other) <= worst + 1e-9 * size + 1e-12

    @pytest.mark.parametrize("ambiguity", [*SETS, Chi2Variance(0.4)], ids=str)
    def test_the_weights_are_the_slope_of_the_worst_case(self, ambiguity, random_points):
        losses = random_points(7, 9)
        step = 1e-6 * torch.eye(9).double()
        numeric = torch.stack(
            [(ambiguity.worst_case(losses + s) - ambiguity.worst_case(losses - s)) / 2e-6 for s in step]
        )
        torch.testing.assert_close(ambiguity.weights(losses), numeric, rtol=0, atol=2e-6)


class TestLimits:
    def test_equal_losses_leave_the_adversary_nothing(self):
        for ambiguity in (*SETS, Chi2Variance(0.4)):
            for count in (1, 7):
                losses = torch.full((count,), 2.5, dtype=torch.float64)
                assert float(ambiguity.worst_case(losses)) == pytest.approx(2.5, rel=1e-14), ambiguity
                assert float(ambiguity.weights(losses).sum()) == pytest.approx(1.0, abs=1e-14), ambiguity

    @pytest.mark.parametrize("ambiguity", [KLBall(0.0), Chi2Ball(0.0), CVaR(1.0)], ids=str)
    def test_the_smallest_set_is_the_mean(self, ambiguity, random_points):
        for count in (1, 2, 7, 30):
            losses = random_points(8, count)
            uniform = torch.full_like(losses, 1 / count)
            assert float(ambiguity.worst_case(losses)) == pytest.approx(float(losses.mean()), abs=1e-14)
            torch.testing.assert_close(ambiguity.weights(losses), uniform, rtol=1e-13, atol=0)

    @pytest.mark.parametrize("radius", [1e-3, 1e-6])
    @pytest.mark.parametrize("kind", [KLBall, Chi2Ball])
    def test_a_small_radius_adds_the_deviation(self, kind, radius, random_points):
        """Both divergences are half a squared deviation of `m p` near one, so the value rises like `sqrt(2 r Var)`."""
        losses = random_points(9, 30)
        expected = float(losses.mean() + (2 * radius * losses.var(correction=0)).sqrt())
        assert float(kind(radius).worst_case(losses)) == pytest.approx(expected, abs=3 * radius)

    @pytest.mark.parametrize("build", [KLBall, Chi2Ball])
    def test_the_largest_ball_is_the_maximum(self, build, random_points):
        for radius in (1e2, 1e6, math.inf):
            for count in (2, 7, 30):
                losses = random_points(10, count)
                assert float(build(radius).worst_case(losses)) == pytest.approx(float(losses.max()), abs=1e-12)
                assert int(build(radius).weights(losses).argmax()) == int(losses.argmax())

    @pytest.mark.parametrize("count", [2, 7, 30])
    def test_where_a_ball_becomes_trivial(self, count, random_points):
        losses = random_points(11, count)
        top = float(losses.max())
        for edge, build in ((math.log(count), KLBall), (0.5 * (count - 1), Chi2Ball)):
            assert float(build(edge).worst_case(losses)) == pytest.approx(top, abs=1e-12)
            assert float(build(0.9 * edge).worst_case(losses)) < top - 1e-4
        assert float(CVaR(1 / count).worst_case(losses)) == pytest.approx(top, abs=1e-12)
        assert float(CVaR(0.1 / count).worst_case(losses)) == pytest.approx(top, abs=1e-12)
        assert float(CVaR(1.2 / count).worst_case(losses)) < top - 1e-4

    def test_ties_share_the_weight(self):
        losses = tensor(1.0, 3.0, 3.0, 0.0)
        for ambiguity in (KLBall(1.0), Chi2Ball(2.0), CVaR(0.5)):
            assert float(ambiguity.worst_case(losses)) == pytest.approx(3.0, abs=1e-12)
        # A chi-square ball that just holds the even split of the two.
        assert float(Chi2Ball(0.5).worst_case(losses)) == pytest.approx(3.0, abs=1e-7)
        assert float(Chi2Ball(0.45).worst_case(losses)) < 3.0 - 1e-3
        assert float(KLBall(math.log(2)).worst_case(losses)) == pytest.approx(3.0, abs=1e-7)

    def test_a_low_price_of_chi_square_gives_the_largest_loss(self, random_points):
        for gamma in (1e-3, 1e-6, 1e-9):
            for count in (2, 30):
                losses = random_points(12, count)
                # All weight on one sample costs (m - 1) / 2.
                expected = float(losses.max()) - 0.5 * gamma * (count - 1)
                assert float(Chi2Penalty(gamma).worst_case(losses)) == pytest.approx(expected, abs=1e-12)

    @pytest.mark.parametrize("kind", [Chi2Penalty, Chi2Variance])
    def test_a_high_price_of_chi_square_gives_the_mean_without_cancellation(self, kind, random_points):
        losses = random_points(13, 20)
        for gamma in (1e3, 1e6, 1e10, 1e14):
            expected = float(losses.mean() + losses.var(correction=0) / (2 * gamma))
            assert float(kind(gamma).worst_case(losses)) == pytest.approx(expected, abs=1e-9)

    @pytest.mark.parametrize("kind", [*KINDS, "chi2_variance"])
    @given(data=st.data(), losses=loss_vectors(), offset=st.sampled_from([3.0, -40.0, 1e3, 1e6]))
    def test_adding_a_constant_to_the_losses_adds_it_to_the_worst_case(self, kind, data, losses, offset):
        ambiguity = data.draw({**KINDS, "chi2_variance": st.builds(Chi2Variance, PRICES)}[kind])
        value = float(ambiguity.worst_case(losses))
        moved = float(ambiguity.worst_case(losses + offset)) - offset
        # The losses themselves are rounded when the constant is added, and the variance form squares them.
        rounding = 1e-13 * abs(offset) * (1.0 + float(losses.max() - losses.min()) / getattr(ambiguity, "gamma", 1.0))
        assert moved == pytest.approx(value, abs=rounding + 1e-9, rel=1e-9)

    @pytest.mark.parametrize("ambiguity", BALLS, ids=str)
    def test_a_ball_scales_with_the_losses(self, ambiguity, random_points):
        losses = random_points(15, 25)
        value = float(ambiguity.worst_case(losses))
        for scale in (1e-6, 1e6):
            assert float(ambiguity.worst_case(scale * losses)) == pytest.approx(scale * value, rel=1e-8)

    def test_single_precision_is_kept_and_good_enough(self, random_points):
        losses = random_points(16, 40)
        for ambiguity in (*SETS, Chi2Variance(0.4)):
            single = ambiguity.worst_case(losses.float())
            assert single.dtype == torch.float32, ambiguity
            assert ambiguity.weights(losses.float()).dtype == torch.float32, ambiguity
            assert float(single) == pytest.approx(float(ambiguity.worst_case(losses)), abs=2e-5), ambiguity


class TestPrices:
    @pytest.mark.parametrize("ambiguity", PENALTIES, ids=str)
    def test_a_penalty_is_its_definition(self, ambiguity, random_points):
        weights = torch.softmax(random_points(17, 11), 0)
        expected = ambiguity.gamma * divergence_value(ambiguity, weights)
        assert ambiguity.penalty(weights) == pytest.approx(expected, rel=1e-12)
        assert ambiguity.penalty(torch.full((11,), 1 / 11, dtype=torch.float64)) == pytest.approx(0.0, abs=1e-14)

    def test_a_weight_of_zero_has_a_finite_price(self):
        weights = tensor(1.0, 0.0, 0.0, 0.0)
        assert KLPenalty(0.5).penalty(weights) == pytest.approx(0.5 * math.log(4), rel=1e-14)
        assert Chi2Penalty(0.5).penalty(weights) == pytest.approx(0.5 * 1.5, rel=1e-14)

    @pytest.mark.parametrize("ambiguity", BALLS, ids=str)
    def test_a_ball_is_free_inside_and_closed_outside(self, ambiguity, random_points):
        assert ambiguity.penalty(torch.full((30,), 1 / 30, dtype=torch.float64)) == 0.0
        assert ambiguity.penalty(ambiguity.weights(random_points(18, 30))) == 0.0
        corner = torch.zeros(30).double()
        corner[3] = 1.0
        assert ambiguity.penalty(corner) == math.inf

    def test_the_weights_of_the_variance_form_pay_for_themselves(self, random_points):
        """What the adversary gets at its weights, less what it pays, is the worst case."""
        losses, ambiguity = random_points(19, 10), Chi2Variance(0.4)
        weights = ambiguity.weights(losses)
        reached = float(weights @ losses) - ambiguity.penalty(weights)
        assert reached == pytest.approx(float(ambiguity.worst_case(losses)), rel=1e-12)

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_nearest_weights_are_on_the_simplex_and_good_ones_stay(self, ambiguity, random_points):
        for seed in range(3):
            losses = random_points(20 + seed, 15)
            exact = ambiguity.weights(losses)
            torch.testing.assert_close(ambiguity.nearest(exact), exact, rtol=0, atol=1e-12)
            near = ambiguity.nearest(exact + 1e-5 * random_points(30 + seed, 15))
            assert float(near.min()) >= 0.0
            assert float(near.sum()) == pytest.approx(1.0, abs=1e-12)
            torch.testing.assert_close(near, exact, rtol=0, atol=1e-3)

    @pytest.mark.parametrize("level", [0.1, 0.3, 0.77])
    def test_nearest_weights_of_a_tail_are_the_projection_on_the_capped_simplex(self, level, random_points):
        for seed in range(3):
            target = 0.3 * random_points(40 + seed, 12)
            weights = cvxpy.Variable(12)
            conditions = [weights >= 0, cvxpy.sum(weights) == 1, weights <= 1.0 / (level * 12)]
            cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(weights - target.numpy())), conditions).solve("CLARABEL")
            found = CVaR(level).nearest(target)
            torch.testing.assert_close(found, torch.from_numpy(weights.value), rtol=0, atol=1e-6)
            assert CVaR(level).penalty(found) == 0.0


class TestVariance:
    @given(losses=loss_vectors(smallest=2), factor=st.sampled_from([1.0 + 1e-9, 1.5, 10.0]))
    def test_it_is_the_exact_penalty_where_no_weight_is_negative(self, losses, factor):
        edge = float(losses.mean() - losses.min())
        assume(edge > 0.0)
        exact, variance = Chi2Penalty(factor * edge), Chi2Variance(factor * edge)
        assert float(variance.weights(losses).min()) >= -1e-15
        expected = float(exact.worst_case(losses))
        assert float(variance.worst_case(losses)) == pytest.approx(expected, rel=1e-12, abs=1e-13 * edge)
        torch.testing.assert_close(variance.weights(losses), exact.weights(losses), rtol=0, atol=1e-13)

    @given(losses=loss_vectors(smallest=2), factor=st.sampled_from([0.9, 0.5, 0.1]))
    def test_below_that_price_it_is_above_the_exact_one(self, losses, factor):
        """By half of `gamma m` times the squared distance of the weights, of which one has to rise to zero."""
        edge, count = float(losses.mean() - losses.min()), losses.numel()
        assume(edge > 0.0)
        exact, variance = Chi2Penalty(factor * edge), Chi2Variance(factor * edge)
        smallest = (1.0 - 1.0 / factor) / count
        assert float(variance.weights(losses).min()) == pytest.approx(smallest, rel=1e-9)
        above = float(variance.worst_case(losses) - exact.worst_case(losses))
        assert above >= 0.5 * factor * edge * count * smallest**2 * (1 - 1e-6)

    def test_it_is_not_convex_in_general(self):
        """For losses `(x^2, 5)` at the price 0.1 the second derivative at zero is -24."""

        def value(x):
            return Chi2Variance(0.1).worst_case(torch.stack([x.square(), torch.full_like(x, 5.0)]))

        origin = torch.zeros((), dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(value(origin), origin, create_graph=True)
        (curvature,) = torch.autograd.grad(slope, origin)
        assert float(curvature) == pytest.approx(-24.0, abs=1e-10)
        assert not Chi2Variance(0.1).keeps_convexity
        assert Chi2Variance(0.1).minorant() == Chi2Penalty(0.1)

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_all_others_keep_convexity_and_are_their_own_minorant(self, ambiguity, random_points):
        assert ambiguity.keeps_convexity
        assert ambiguity.minorant() is ambiguity
        for seed in range(10):
            first, second = random_points(60 + seed, 8), random_points(80 + seed, 8)
            middle = ambiguity.worst_case(0.5 * (first + second))
            assert float(middle) <= 0.5 * float(ambiguity.worst_case(first) + ambiguity.worst_case(second)) + 1e-12

    @pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0, 3.0])
    def test_the_minorant_is_never_above(self, gamma, random_points):
        for seed in range(10):
            losses = random_points(100 + seed, 9)
            variance = Chi2Variance(gamma)
            assert float(variance.minorant().worst_case(losses)) <= float(variance.worst_case(losses)) + 1e-13

    def test_the_printed_formula_with_the_other_sign_is_wrong(self, random_points):
        """`1 - Var / (2 gamma)` is far from what the adversary can reach; `mean + Var / (2 gamma)` is it."""
        losses = 2.0 + random_points(120, 8)
        expected = primal(Chi2Variance(1.0), losses)
        printed = 1.0 - float(losses.var(correction=0)) / 2.0
        assert float(Chi2Variance(1.0).worst_case(losses)) == pytest.approx(expected, abs=1e-7)
        assert abs(printed - expected) > 0.5
