"""Outer functions: values, gradients, and that a shift cancels."""

import math

import pytest
import torch

from drobench.objective.outer_functions import NoOuter, ScaledLog

ZERO = torch.zeros((), dtype=torch.float64)


def test_the_scaled_logarithm_by_hand():
    outer = ScaledLog(0.5)
    inner = torch.tensor([math.e**2], dtype=torch.float64)
    assert float(outer.value(inner, ZERO)) == pytest.approx(1.0, rel=1e-15)
    assert float(outer.value(inner, ZERO + 3.0)) == pytest.approx(4.0, rel=1e-15)
    assert outer.gradient(inner, ZERO + 3.0).tolist() == pytest.approx([0.5 / math.e**2], rel=1e-15)


@pytest.mark.parametrize("gamma", [0.05, 1.0, 20.0])
def test_the_gradient_of_the_logarithm_is_that_of_automatic_differentiation(gamma, random_points):
    inner = random_points(0, 1).exp().requires_grad_(True)
    ScaledLog(gamma).value(inner, ZERO + 0.7).backward()
    torch.testing.assert_close(ScaledLog(gamma).gradient(inner.detach(), ZERO + 0.7), inner.grad, rtol=1e-14, atol=0)


def test_the_logarithm_undoes_the_shift_of_its_argument():
    outer, shift = ScaledLog(0.25), ZERO + 1.5
    inner = torch.tensor([0.3], dtype=torch.float64)
    shifted = inner * torch.exp(-shift / 0.25)
    torch.testing.assert_close(outer.value(shifted, shift), outer.value(inner, ZERO), rtol=1e-14, atol=0)


def test_no_outer_function_is_zero():
    inner = torch.zeros(0, dtype=torch.float32)
    assert NoOuter().value(inner, ZERO).shape == ()
    assert NoOuter().value(inner, ZERO).dtype == torch.float32
    assert float(NoOuter().value(inner, ZERO)) == 0.0
    assert NoOuter().gradient(inner, ZERO).shape == (0,)


def test_nothing_is_known_about_the_inner_value_by_default():
    assert ScaledLog(1.0).smallest(ZERO) is None
    assert NoOuter().smallest(ZERO) is None
