"""The adversary over groups, against sums written out group by group and an interior-point solver."""

import math

import cvxpy
import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.ambiguity_sets import Chi2Penalty, Chi2Variance, CVaR, KLPenalty
from drobench.objective.group_adversary import GroupAdversary

GROUPS = torch.tensor([2, 0, 1, 1, 2, 2, 0, 1, 2, 2, 2])
SIZES = {0: 2, 1: 3, 2: 6}
WORST = CVaR(1.0 / 3.0)


@pytest.fixture
def losses(random_points):
    return random_points(7, GROUPS.numel()).abs()


def group_means(losses):
    return [float(losses[group == GROUPS].mean()) for group in SIZES]


def test_the_worst_group_is_the_largest_of_the_group_means(losses):
    means = group_means(losses)
    adversary = GroupAdversary(GROUPS, WORST)
    assert adversary.worst_only
    assert float(adversary.worst_case(losses)) == pytest.approx(max(means), rel=1e-14)
    worst = means.index(max(means))
    expected = (worst == GROUPS).double() / SIZES[worst]
    torch.testing.assert_close(adversary.weights(losses), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("gamma", [0.05, 0.4, 5.0])
def test_a_price_on_groups_is_that_of_the_primal_problem(losses, gamma):
    by_group = cvxpy.Variable(3)
    divergence = -cvxpy.sum(cvxpy.entr(by_group)) + math.log(3) * cvxpy.sum(by_group)
    objective = cvxpy.Maximize(by_group @ group_means(losses) - gamma * divergence)
    value = cvxpy.Problem(objective, [by_group >= 0, cvxpy.sum(by_group) == 1]).solve(solver="CLARABEL")
    adversary = GroupAdversary(GROUPS, KLPenalty(gamma))
    assert not adversary.worst_only
    assert float(adversary.worst_case(losses)) == pytest.approx(value, abs=1e-7)
    expected = torch.tensor([by_group.value[group] / SIZES[int(group)] for group in GROUPS], dtype=torch.float64)
    torch.testing.assert_close(adversary.weights(losses), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("over", [WORST, KLPenalty(0.3), Chi2Penalty(0.5)])
def test_the_weights_attain_the_worst_case_after_their_penalty(losses, over):
    adversary = GroupAdversary(GROUPS, over)
    weights = adversary.weights(losses)
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-14)
    attained = float(weights.dot(losses)) - adversary.penalty(weights)
    assert attained == pytest.approx(float(adversary.worst_case(losses)), rel=1e-12)


def test_the_weights_are_the_gradient_of_the_worst_case(losses):
    losses.requires_grad_(True)
    adversary = GroupAdversary(GROUPS, KLPenalty(0.3))
    adversary.worst_case(losses).backward()
    torch.testing.assert_close(adversary.weights(losses.detach()), losses.grad, rtol=1e-12, atol=0)


def test_weights_that_differ_within_a_group_have_an_infinite_price(losses):
    adversary = GroupAdversary(GROUPS, KLPenalty(0.3))
    weights = adversary.weights(losses)
    weights[1] += 1e-3
    weights[6] -= 1e-3
    assert adversary.penalty(weights) == math.inf


def test_nearest_makes_weights_equal_within_a_group_and_keeps_their_sums(random_points):
    adversary = GroupAdversary(GROUPS, KLPenalty(0.3))
    weights = random_points(3, GROUPS.numel()).abs()
    weights = weights / weights.sum()
    near = adversary.nearest(weights)
    assert math.isfinite(adversary.penalty(near))
    for group, size in SIZES.items():
        expected = torch.full((size,), float(weights[group == GROUPS].sum()) / size, dtype=torch.float64)
        torch.testing.assert_close(near[group == GROUPS], expected, rtol=1e-12, atol=0)


def test_one_group_is_the_mean_and_one_row_a_group_is_the_adversary_itself(losses):
    alone = GroupAdversary(torch.zeros_like(GROUPS), CVaR(1.0))
    assert float(alone.worst_case(losses)) == pytest.approx(float(losses.mean()), rel=1e-14)
    apart = GroupAdversary(torch.arange(GROUPS.numel()), KLPenalty(0.2))
    assert float(apart.worst_case(losses)) == pytest.approx(float(KLPenalty(0.2).worst_case(losses)), rel=1e-14)
    torch.testing.assert_close(apart.weights(losses), KLPenalty(0.2).weights(losses))


def test_a_high_price_gives_the_mean_of_the_group_means(losses):
    expected = sum(group_means(losses)) / 3.0
    assert float(GroupAdversary(GROUPS, KLPenalty(1e8)).worst_case(losses)) == pytest.approx(expected, rel=1e-8)


def test_the_weakest_convex_adversary_keeps_the_groups():
    adversary = GroupAdversary(GROUPS, Chi2Variance(0.5))
    assert not adversary.keeps_convexity
    weaker = adversary.minorant()
    assert isinstance(weaker.over, Chi2Penalty)
    assert torch.equal(weaker.groups, GROUPS)
    assert weaker.keeps_convexity


def test_single_precision_stays_and_loses_nothing_over_many_rows():
    rows = 2_000_000
    adversary = GroupAdversary(torch.arange(rows) % 2, WORST)
    losses = torch.full((rows,), 0.1, dtype=torch.float32)
    means = adversary.means(losses)
    assert means.dtype == torch.float32
    torch.testing.assert_close(means, torch.full((2,), 0.1), rtol=1e-6, atol=0)
    assert adversary.penalty(adversary.weights(losses)) == 0.0


def test_an_empty_group_is_refused_by_its_number():
    with pytest.raises(DrobenchError, match=r"found none in group 1, 3 of 0\.\.4"):
        GroupAdversary(torch.tensor([0, 2, 4, 4]), WORST)


@pytest.mark.parametrize("groups", [torch.tensor([0, -1]), torch.tensor([0.0, 1.0]), torch.zeros(0, dtype=torch.int64)])
def test_numbers_that_are_no_groups_are_refused(groups):
    with pytest.raises(DrobenchError, match="one group number of at least 0"):
        GroupAdversary(groups, WORST)
