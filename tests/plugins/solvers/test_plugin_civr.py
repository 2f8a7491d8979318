"""CIVR: the losses are an output of the inner map, and the iterates those of GCIVR."""

import numpy as np
import pytest
import torch
from composite_samples import KINDS, composite_sample, half_spaces

from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import ElasticNet
from drobench_plugins.solvers.civr import Civr, CivrConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig


@pytest.mark.parametrize(
    "settings", [{}, {"schedule": "adaptive", "growth": 1.0, "initial": 2.0}, {"replacement": True}]
)
def test_without_losses_it_is_gcivr_bit_for_bit(synthetic, trace, settings):
    data = synthetic(120, 4, 0)
    first, second = data.oracle(0.3, 1), data.oracle(0.3, 1)
    one = trace(Civr(CivrConfig(**settings)), first, data.start, 80)
    other = trace(Gcivr(GcivrConfig(**settings)), second, data.start, 80)
    assert all(torch.equal(a.point, b.point) for a, b in zip(one, other, strict=True))
    assert first.counters == second.counters


@pytest.mark.parametrize("kind", KINDS[1:])
def test_with_losses_it_is_gcivr_up_to_rounding(synthetic, trace, kind):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    settings = {"step_size": 0.1, "monotone": False}
    one = trace(Civr(CivrConfig(**settings)), sample.oracle(1), sample.start, 80)
    other = trace(Gcivr(GcivrConfig(**settings)), sample.oracle(1), sample.start, 80)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a.point, b.point, rtol=0, atol=1e-12)


class Augmented(OuterFunction):
    """`f~(y, u) = y^2 / 2 + u`."""

    def value(self, inner_value, shift):
        return 0.5 * inner_value[0].square() + inner_value[1]

    def gradient(self, inner_value, shift):
        return torch.stack([inner_value[0], torch.ones_like(inner_value[1])])


def test_it_is_gcivr_on_the_augmented_map_written_out(half_square, trace):
    slopes = torch.tensor([[1.0, -2.0], [3.0, 0.5], [0.3, 1.0]], dtype=torch.float64)

    def inner(point, numbers):
        return torch.sin(slopes[numbers] @ point)

    def loss(point, numbers):
        return 0.5 * (slopes[numbers] - point).square().sum(dim=1)

    def both(point, numbers):
        return torch.stack([inner(point, numbers), loss(point, numbers)], dim=1)

    apart = FunctionComposite(2, 3, 1, ElasticNet(l1=0.1), inner=inner, outer=half_square, loss=loss)
    folded = FunctionComposite(2, 3, 2, ElasticNet(l1=0.1), inner=both, outer=Augmented())
    start = torch.ones(2, dtype=torch.float64)
    settings = {"step_size": 0.1, "epoch_length": 4, "batch": 1}
    one = trace(Civr(CivrConfig(**settings)), CompositeOracle(apart, 3, start), start, 20)
    other = trace(Gcivr(GcivrConfig(**settings)), CompositeOracle(folded, 3, start), start, 20)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a.point, b.point, rtol=0, atol=1e-12)
    assert float((one[-1].point - start).abs().max()) > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, kind):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    oracle = sample.oracle(5)
    settings = CivrConfig(step_size=0.1, batch=6, epoch_length=7, monotone=False)
    states = trace(Civr(settings), oracle, sample.start, 28)
    generator, x = np.random.default_rng(5), sample.start.numpy()
    previous = x

    def stacked(x, index=slice(None)):
        means = sample.terms(x, index).mean()
        return means.inner, np.concatenate([means.jacobian, means.loss[None]])

    for step, state in enumerate(states[1:]):
        if step % 7 == 0:
            y, z = stacked(x)
        else:
            index = sample.draw(generator, 6)
            (here, slopes), (there, slopes_there) = stacked(x, index), stacked(previous, index)
            y, z = y + here - there, z + slopes - slopes_there
        previous, x = x, sample.prox(x - 0.1 * np.append(sample.slope(y), 1.0) @ z, 0.1)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-11)
    assert oracle.counters.sample_calls == 4 * (60 + 6 * 12)


def test_it_solves_a_smoothed_constrained_problem(trace):
    oracle, start, least = half_spaces()
    states = trace(Civr(CivrConfig()), oracle, start, 600)
    assert states[-1].safeguard.accepted.value - least < 1e-8
