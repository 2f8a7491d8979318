"""Group-robust risk as a composite and as a saddle: values, derivatives, unbiased estimates, parts, draws by groups."""

import math
from itertools import combinations

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty, CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum, GroupedMinMax, MinMax, RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.min_max import GroupedMinMaxOracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows, Shard
from drobench.reformulation.groups import GroupSaddle
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import REFORMULATIONS, NoRouteError, find_route

GROUPS = torch.tensor([0, 1, 2, 1, 2] * 4)
SIZES = torch.tensor([4.0, 8.0, 8.0], dtype=torch.float64)
WORST = CVaR(1.0 / 3.0)
OVERS = (WORST, KLPenalty(0.3), Chi2Penalty(0.5), Chi2Ball(0.2), CVaR(0.6))
FULL = Rows(slice(None), covered=1.0)
OPTIONS = ReformulationConfig()


@pytest.fixture
def risk(t20):
    def make(over=WORST, groups=GROUPS):
        return RobustRisk(t20, GroupAdversary(groups, over), ElasticNet(0.0, 0.1))

    return make


def means(form, point):
    """The group means, differentiable and one by one."""
    losses = torch.nn.functional.softplus(-(form.losses.signed_rows @ point))
    return torch.stack([losses[group == GROUPS].mean() for group in range(3)])


def lagrangian(form, point, weights):
    value = weights @ means(form, point) + 0.05 * point.square().sum()
    over = form.ambiguity.over
    if isinstance(over, KLPenalty):
        return value - over.gamma * (weights * (weights * 3).log()).sum()
    if isinstance(over, Chi2Penalty):
        return value - 0.5 * over.gamma * 3 * (weights - 1 / 3).square().sum()
    return value


def only(steps):
    (step,) = steps
    return step.name


class TestComposite:
    def test_a_price_is_equivalent(self, risk, hat):
        form = risk(KLPenalty(0.3))
        route = find_route(form, (Composite,), OPTIONS)
        assert (route.names, len(route.stages)) == (["group_penalty"], 1)
        assert float(route.form.value(hat)) == pytest.approx(float(form.value(hat)), rel=1e-13)

    def test_the_worst_group_is_approached_from_below_by_the_width_times_ln_of_the_groups(self, risk, hat):
        form = risk()
        route = find_route(form, (Composite,), OPTIONS)
        assert only(route.steps) == "worst_group"
        exact = float(form.value(hat))
        errors = [exact - float(stage.value(hat)) for stage in route.stages]
        assert all(
            0 <= error <= stage.outer.gamma * math.log(3) for error, stage in zip(errors, route.stages, strict=True)
        )
        assert errors == sorted(errors, reverse=True)

    def test_a_smoothing_error_decides_on_the_width(self, risk):
        route = find_route(risk(), (Composite,), ReformulationConfig(smoothing_error=0.02))
        assert route.form.outer.gamma == pytest.approx(0.02 / math.log(3))

    def test_inner_values_are_the_group_means_and_derivatives_theirs(self, risk, hat):
        form = risk(KLPenalty(0.3))
        composite = find_route(form, (Composite,), OPTIONS).form
        points = torch.stack([hat, 2 * hat])
        estimate = composite.estimate(points, FULL, None)
        for point, values, jacobian in zip(points, estimate.inner_value, estimate.inner_jacobian, strict=True):
            torch.testing.assert_close(values, means(form, point))
            torch.testing.assert_close(jacobian, torch.func.jacrev(lambda at: means(form, at))(point))
        found = torch.func.grad(lambda at: 0.3 * torch.logsumexp(means(form, at) / 0.3, 0))(hat)
        torch.testing.assert_close(composite.smooth_gradient(hat), found)

    def test_every_row_contributes_its_part_of_the_mean(self, risk, hat):
        composite = find_route(risk(KLPenalty(0.3)), (Composite,), OPTIONS).form
        whole, terms = composite.estimate(hat[None], FULL, None), composite.row_terms(hat, FULL, None)
        torch.testing.assert_close(terms.inner_value.mean(0), whole.inner_value[0])
        torch.testing.assert_close(terms.inner_jacobian.mean(0), whole.inner_jacobian[0])
        one = composite.estimate(hat[None], Rows(torch.tensor([7])), None)
        torch.testing.assert_close(terms.inner_value[7], one.inner_value[0])
        torch.testing.assert_close(terms.inner_jacobian[7], one.inner_jacobian[0])

    def test_a_change_is_the_difference_of_two_estimates(self, risk, hat):
        composite = find_route(risk(KLPenalty(0.3)), (Composite,), OPTIONS).form
        points, rows = torch.stack([hat, -hat]), Rows(torch.tensor([3, 4, 10, 11, 17]))
        change, both = composite.change(points, rows, hat.new_zeros(())), composite.estimate(points, rows, None)
        difference = both.inner_value[0] - both.inner_value[1]
        assert change.inner_value == pytest.approx(difference.tolist(), abs=1e-13)
        torch.testing.assert_close(change.inner_jacobian, both.inner_jacobian[0] - both.inner_jacobian[1])
        assert change.loss_gradient is None

    def test_groups_of_one_row_are_the_kl_penalty_on_samples(self, risk, t20, hat):
        apart = find_route(risk(KLPenalty(0.3), torch.arange(20)), (Composite,), OPTIONS).form
        plain = find_route(RobustRisk(t20, KLPenalty(0.3), ElasticNet(0.0, 0.1)), (Composite,), OPTIONS).form
        assert float(apart.value(hat)) == pytest.approx(float(plain.value(hat)), rel=1e-12)
        torch.testing.assert_close(apart.smooth_gradient(hat), plain.smooth_gradient(hat))

    def test_one_group_is_empirical_risk(self, risk, t20, hat):
        alone = find_route(risk(CVaR(1.0), torch.zeros(20, dtype=torch.int64)), (Composite,), OPTIONS).form
        plain = FiniteSum(t20, ElasticNet(0.0, 0.1))
        assert float(alone.value(hat)) == pytest.approx(float(plain.value(hat)), rel=1e-13)
        torch.testing.assert_close(alone.smooth_gradient(hat), plain.smooth_gradient(hat))


class TestSaddle:
    @pytest.mark.parametrize("over", OVERS, ids=str)
    def test_the_operator_is_the_gradient_and_its_opposite(self, over, risk, hat):
        form = risk(over)
        saddle = GroupSaddle(form)
        weights = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
        by_point, by_weights = torch.func.grad(lambda x, q: lagrangian(form, x, q), argnums=(0, 1))(hat, weights)
        found = saddle.operator(torch.cat([hat, weights]), FULL)
        torch.testing.assert_close(found, torch.cat([by_point, -by_weights]))
        value = float(saddle.value(torch.cat([hat, saddle.project(saddle.start(hat))[3:]])))
        assert value <= float(form.value(hat)) + 1e-12

    @pytest.mark.parametrize("over", [WORST, KLPenalty(0.3)], ids=str)
    def test_the_mean_of_the_operator_over_all_draws_is_exact(self, over, risk, hat):
        saddle = GroupSaddle(risk(over))
        joint = torch.cat([hat, torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)])
        draws = [saddle.operator(joint, Rows(torch.tensor(pair))) for pair in combinations(range(20), 2)]
        torch.testing.assert_close(torch.stack(draws).mean(0), saddle.operator(joint, FULL))

    def test_one_row_of_each_group_estimates_without_bias(self, risk, hat):
        saddle = GroupSaddle(risk())
        joint = torch.cat([hat, torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)])
        rows = [torch.nonzero(group == GROUPS)[:, 0].tolist() for group in range(3)]
        once = torch.ones(3, dtype=torch.int64)
        draws = [
            saddle.operator(joint, Rows(torch.tensor([a, b, c]), by_group=once))
            for a in rows[0]
            for b in rows[1]
            for c in rows[2]
        ]
        torch.testing.assert_close(torch.stack(draws).mean(0), saddle.operator(joint, FULL))

    def test_the_weights_move_to_the_maximiser_of_gain_less_price_less_distance(self, risk, hat):
        losses, step, old = torch.tensor([0.5, 1.0, 0.2]).double(), 0.7, torch.tensor([0.2, 0.3, 0.5]).double()
        for over, gamma in ((WORST, 0.0), (KLPenalty(0.3), 0.3)):
            new = GroupSaddle(risk(over)).raise_weights(torch.cat([hat, old]), losses, step)
            torch.testing.assert_close(new[:3], hat)

            def gain(q, gamma=gamma):
                kept = (q * (q / old).log()).sum() / step
                return q @ losses - gamma * (q * (3 * q).log()).sum() - kept

            best = float(gain(new[3:]))
            shaken = [torch.softmax(new[3:].log() + 0.1 * noise, 0) for noise in torch.eye(3).double() - 0.5]
            assert all(float(gain(other)) < best for other in shaken)
        plain = old * (step * losses).exp()
        torch.testing.assert_close(
            GroupSaddle(risk()).raise_weights(torch.cat([hat, old]), losses, step)[3:], plain / plain.sum()
        )

    @pytest.mark.parametrize("over", [Chi2Penalty(0.5), Chi2Ball(0.2), CVaR(0.6)], ids=str)
    def test_other_adversaries_move_in_straight_lines_and_stay_in_their_set(self, over, risk, hat):
        saddle = GroupSaddle(risk(over))
        joint = saddle.start(hat)
        moved = saddle.raise_weights(joint, torch.tensor([5.0, 0.0, 0.0]).double(), 3.0)
        assert float(moved[3:].sum()) == pytest.approx(1.0)
        assert moved[3] > moved[4]
        torch.testing.assert_close(saddle.project(moved), moved)

    def test_a_mirror_step_moves_both_players(self, risk, hat):
        saddle = GroupSaddle(risk(KLPenalty(0.3)))
        joint = saddle.start(hat)
        operator = saddle.operator(joint, FULL)
        moved = saddle.mirror_step(joint, operator, 0.2, 0.9)
        torch.testing.assert_close(moved[:3], hat - 0.2 * operator[:3])
        raised = saddle.raise_weights(joint, means(saddle.form, hat), 0.3)
        torch.testing.assert_close(moved[3:], raised[3:])


class TestRoutes:
    def test_nothing_else_takes_an_adversary_over_groups(self, risk):
        accepting = {kind.name for kind in REFORMULATIONS if kind().accepts(risk())}
        assert accepting == {"worst_group", "group_saddle", "drop_robustness"}
        accepting = {kind.name for kind in REFORMULATIONS if kind().accepts(risk(KLPenalty(0.3)))}
        assert accepting == {"group_penalty", "group_saddle", "drop_robustness"}
        assert {kind.name for kind in REFORMULATIONS if kind().accepts(risk(KLBall(0.3)))} == {"drop_robustness"}

    def test_solvers_of_saddles_find_it_and_points_translate(self, risk, hat):
        route = find_route(risk(), (MinMax,), OPTIONS)
        assert isinstance(route.form, GroupedMinMax)
        torch.testing.assert_close(route.lift(hat), torch.cat([hat, torch.full((3,), 1 / 3).double()]))
        assert torch.equal(route.recover(route.lift(hat)), hat)

    def test_a_problem_without_groups_is_refused_by_name(self, t20):
        with pytest.raises(NoRouteError, match=r"with KLPenalty .*\(GroupedMinMax\)"):
            find_route(RobustRisk(t20, KLPenalty(0.3), ElasticNet(0.0, 0.1)), (GroupedMinMax,), OPTIONS)


class TestDraws:
    def oracle(self, risk, hat, shard=Shard()):  # noqa: B008  # an immutable tuple
        return build_oracle(find_route(risk(), (GroupedMinMax,), OPTIONS).form, 5, hat, shard)

    def test_a_draw_has_so_many_rows_of_each_group_and_is_counted(self, risk, hat):
        oracle = self.oracle(risk, hat)
        assert isinstance(oracle, GroupedMinMaxOracle)
        for _ in range(20):
            rows = oracle.draw_groups([1, 3, 2])
            assert torch.bincount(GROUPS[rows.samples]).tolist() == rows.by_group.tolist() == [1, 3, 2]
            assert rows.samples.unique().numel() == 6
        oracle.operator(oracle.start(hat), rows)
        oracle.group_losses(oracle.start(hat), rows)
        assert (oracle.counters.sample_calls, oracle.counters.loss_gradients) == (12, 12)

    @pytest.mark.parametrize("parts", [1, 2, 3, 5])
    @pytest.mark.parametrize(
        ("counts", "drawn"), [([1, 3, 2], 6 + 6), ([0, 1, 0], 1 + 1), ([6, 6, 6], 16 + 18), (None, 20 + 20)]
    )
    def test_every_process_knows_what_all_of_them_evaluate(self, risk, hat, parts, counts, drawn):
        oracles = [self.oracle(risk, hat, Shard(rank, parts)) for rank in range(parts)]
        for oracle in oracles:
            for replacement in (False, True):
                rows = oracle.draw_groups(counts, replacement=replacement)
                oracle.operator(oracle.start(hat), rows)
                oracle.group_losses(oracle.start(hat), rows)
            oracle.project(oracle.start(hat))
            assert oracle.settled
        names = oracles[0].counters.as_dict()
        sums = {name: sum(oracle.counters.as_dict()[name] for oracle in oracles) for name in names}
        assert (sums["sample_calls"], sums["projections"]) == (2 * drawn, 1)
        assert all(oracle.totals.as_dict() == sums for oracle in oracles)

    def test_every_row_of_a_group_is_drawn_equally_often(self, risk, hat):
        oracle = self.oracle(risk, hat)
        seen = torch.zeros(20)
        for _ in range(800):
            seen[oracle.draw_groups([1, 0, 2]).samples] += 1.0
        expected = torch.tensor([200.0, 0.0, 200.0])[GROUPS]
        # Five standard deviations of a binomial count.
        assert float((seen - expected).abs().max()) < 5 * math.sqrt(200)

    def test_no_group_gives_more_than_it_has_unless_rows_may_repeat(self, risk, hat):
        oracle = self.oracle(risk, hat)
        assert oracle.draw_groups([6, 6, 6]).by_group.tolist() == [4, 6, 6]
        assert oracle.draw_groups([6, 6, 6], replacement=True).by_group.tolist() == [6, 6, 6]
        whole = oracle.draw_groups([9, 9, 9])
        assert (whole.samples, whole.by_group.tolist()) == (slice(None), [4, 8, 8])
        with pytest.raises(DrobenchError, match="at least one row"):
            oracle.draw_groups([0, 0, 0])

    @pytest.mark.parametrize("counts", [None, [1, 1, 1], [2, 5, 3]])
    @pytest.mark.parametrize("parts", [2, 5])
    def test_the_parts_of_several_processes_add_up_to_the_operator_of_one(self, counts, parts, risk, hat):
        alone = self.oracle(risk, hat)
        joint = alone.start(hat)
        expected = alone.operator(joint, alone.draw_groups(counts))
        total = torch.zeros_like(expected)
        for rank in range(parts):
            oracle = self.oracle(risk, hat, Shard(rank, parts))
            rows = oracle.draw_groups(counts)
            total += rows.sample_share * oracle.operator(joint, rows)
        torch.testing.assert_close(total, expected)


def test_group_means_are_in_double_precision(risk):
    # Sizes 7, 7 and 6: factors that single precision cannot hold.
    form = risk(KLPenalty(0.5), torch.arange(20) % 3)
    point = torch.linspace(-1.0, 1.0, form.dimension, dtype=torch.float64)
    new = find_route(form, (Composite,), OPTIONS).form
    assert float(new.value(point)) == pytest.approx(float(form.value(point)), rel=1e-13)
