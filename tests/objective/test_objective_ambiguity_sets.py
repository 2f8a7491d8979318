"""The KL adversary against an interior-point solver, and in its limits."""

import math

import cvxpy
import pytest
import torch

from drobench.objective.ambiguity_sets import KLPenalty

GAMMAS = (0.05, 0.5, 3.0)


def primal(losses, gamma):
    """Maximise `sum p_i f_i - gamma KL(p || 1/m)` over the simplex."""
    weights = cvxpy.Variable(losses.numel())
    divergence = -cvxpy.sum(cvxpy.entr(weights)) + math.log(losses.numel()) * cvxpy.sum(weights)
    objective = cvxpy.Maximize(weights @ losses.numpy() - gamma * divergence)
    problem = cvxpy.Problem(objective, [weights >= 0, cvxpy.sum(weights) == 1])
    value = problem.solve(solver="CLARABEL")
    return value, torch.from_numpy(weights.value)


def price(losses, weights, gamma):
    """The adversary's objective at `weights`."""
    return weights @ losses - gamma * torch.special.xlogy(weights, weights * losses.numel()).sum()


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("seed", range(4))
def test_worst_case_and_weights_are_those_of_the_primal_problem(seed, gamma, random_points):
    losses = random_points(seed, 3 + 2 * seed).abs()
    value, weights = primal(losses, gamma)
    ambiguity = KLPenalty(gamma)
    assert float(ambiguity.worst_case(losses)) == pytest.approx(value, abs=1e-7)
    torch.testing.assert_close(ambiguity.weights(losses), weights, rtol=0, atol=1e-4)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_weights_are_a_distribution_that_attains_the_worst_case(gamma, random_points):
    losses = random_points(1, 15).abs()
    ambiguity = KLPenalty(gamma)
    weights = ambiguity.weights(losses)
    assert weights.min() >= 0
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-15)
    assert float(price(losses, weights, gamma)) == pytest.approx(float(ambiguity.worst_case(losses)), rel=1e-13)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_no_other_distribution_is_worse(gamma, random_points):
    losses = random_points(1, 15).abs()
    worst = float(KLPenalty(gamma).worst_case(losses))
    best = KLPenalty(gamma).weights(losses)
    others = [torch.softmax(best.log() + 0.3 * random_points(seed, 15), 0) for seed in range(50)]
    assert all(float(price(losses, other, gamma)) < worst for other in others)


def test_the_weights_are_the_gradient_of_the_worst_case(random_points):
    losses = random_points(2, 8).requires_grad_(True)
    KLPenalty(0.3).worst_case(losses).backward()
    torch.testing.assert_close(KLPenalty(0.3).weights(losses.detach()), losses.grad, rtol=1e-13, atol=0)


def test_the_worst_case_lies_between_mean_and_maximum_and_falls_with_the_price(random_points):
    losses = random_points(3, 20).abs()
    values = [float(KLPenalty(gamma).worst_case(losses)) for gamma in (0.01, 0.1, 1.0, 10.0, 100.0)]
    assert float(losses.max()) > values[0]
    assert values == sorted(values, reverse=True)
    assert values[-1] > float(losses.mean())


def test_a_low_price_gives_the_largest_loss(random_points):
    losses = random_points(4, 20).abs()
    gamma = 1e-6
    # The largest loss has the weight one up to exp(-gap / gamma), and its price is gamma ln m.
    expected = float(losses.max()) - gamma * math.log(20)
    assert float(KLPenalty(gamma).worst_case(losses)) == pytest.approx(expected, abs=1e-14)
    assert KLPenalty(gamma).weights(losses).argmax() == losses.argmax()
    assert float(KLPenalty(gamma).weights(losses).max()) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("gamma", [1e3, 1e6])
def test_a_high_price_gives_the_mean_loss(gamma, random_points):
    losses = random_points(4, 20).abs()
    expected = float(losses.mean() + losses.var(correction=0) / (2 * gamma))
    assert float(KLPenalty(gamma).worst_case(losses)) == pytest.approx(expected, abs=1e-15 * gamma + 1 / gamma**2)
    torch.testing.assert_close(
        KLPenalty(gamma).weights(losses), torch.full((20,), 0.05, dtype=torch.float64), rtol=0, atol=1 / gamma
    )


@pytest.mark.parametrize("gamma", [1e10, 1e14])
def test_an_enormous_price_gives_the_mean_loss_without_cancellation(gamma, random_points):
    losses = random_points(4, 20).abs()
    assert float(KLPenalty(gamma).worst_case(losses)) == pytest.approx(float(losses.mean()), abs=1e-9)


def test_one_sample_is_its_own_worst_case():
    losses = torch.tensor([1.75], dtype=torch.float64)
    assert float(KLPenalty(0.1).worst_case(losses)) == pytest.approx(1.75, rel=1e-15)
    assert KLPenalty(0.1).weights(losses).tolist() == [1.0]


def test_equal_losses_leave_the_adversary_nothing():
    losses = torch.full((7,), 2.5, dtype=torch.float64)
    assert float(KLPenalty(0.2).worst_case(losses)) == pytest.approx(2.5, rel=1e-15)
    torch.testing.assert_close(KLPenalty(0.2).weights(losses), torch.full_like(losses, 1 / 7), rtol=1e-15, atol=0)


def test_adding_a_constant_to_the_losses_adds_it_to_the_worst_case(random_points):
    losses = random_points(5, 9)
    moved = KLPenalty(0.4).worst_case(losses + 3.0) - KLPenalty(0.4).worst_case(losses)
    assert float(moved) == pytest.approx(3.0, abs=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_large_losses_at_a_low_price_do_not_overflow(dtype):
    losses = torch.tensor([1e4, 9e3, 0.0], dtype=dtype)
    assert float(KLPenalty(1e-3).worst_case(losses)) == pytest.approx(1e4 - 1e-3 * math.log(3), rel=1e-6)
    assert KLPenalty(1e-3).weights(losses).tolist() == [1.0, 0.0, 0.0]


def test_the_kl_adversary_keeps_convexity():
    assert KLPenalty(1.0).keeps_convexity
