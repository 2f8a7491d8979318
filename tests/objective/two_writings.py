"""Composites written twice: over losses with derivatives by hand, and as plain functions differentiated by torch."""

import torch
from torch.nn.functional import softplus

from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.composites.losses import LossComposite, LossTerms, LossTransform, PlainLosses
from drobench.objective.outer_functions import NoOuter, OuterFunction, ScaledLog
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.reformulation.divergence import ExponentialTilt

SAMPLES = 12
DIMENSION = 4
ZERO = torch.zeros((), dtype=torch.float64)


class TwoMoments(LossTransform):
    """`g = (f, f^2)` and `h = sin f`: two inner values of both signs, and losses."""

    outputs = 2
    has_losses = True

    def apply(self, losses, shift):
        inner = torch.stack([losses, losses.square()], dim=1)
        slope = torch.stack([torch.ones_like(losses), 2 * losses], dim=1)
        return LossTerms(inner, slope, losses.sin(), losses.cos(), losses.new_zeros(()))


class MeanAndVariance(OuterFunction):
    """`f(y) = y1 + (y2 - y1^2) / 2`."""

    def value(self, inner_value, shift):
        return inner_value[0] + 0.5 * (inner_value[1] - inner_value[0].square())

    def gradient(self, inner_value, shift):
        return torch.stack([1.0 - inner_value[0], torch.full_like(inner_value[1], 0.5)])


def moments(losses):
    return LossComposite(losses, TwoMoments(), MeanAndVariance(), ElasticNet(l1=0.1, l2=0.2))


def moments_as_functions(losses):
    def loss_of(point, numbers):
        return softplus(-(losses.signed_rows[numbers] @ point))

    return FunctionComposite(
        DIMENSION,
        SAMPLES,
        2,
        ElasticNet(l1=0.1, l2=0.2),
        inner=lambda point, numbers: torch.stack([loss_of(point, numbers), loss_of(point, numbers).square()], dim=1),
        outer=MeanAndVariance(),
        loss=lambda point, numbers: loss_of(point, numbers).sin(),
    )


def tilted(losses, gamma, regularizer=None):
    return LossComposite(losses, ExponentialTilt(gamma), ScaledLog(gamma), regularizer or Zero())


def tilted_as_function(losses, gamma, regularizer=None):
    return FunctionComposite(
        DIMENSION,
        SAMPLES,
        1,
        regularizer or Zero(),
        inner=lambda point, numbers: (softplus(-(losses.signed_rows[numbers] @ point)) / gamma).exp(),
        outer=ScaledLog(gamma),
    )


def plain(losses):
    return LossComposite(losses, PlainLosses(), NoOuter(), ElasticNet(l2=0.3))


def plain_as_function(losses):
    return FunctionComposite(
        DIMENSION,
        SAMPLES,
        0,
        ElasticNet(l2=0.3),
        loss=lambda point, numbers: softplus(-(losses.signed_rows[numbers] @ point)),
    )


PAIRS = {
    "moments": (moments, moments_as_functions),
    "tilted": (lambda losses: tilted(losses, 0.7), lambda losses: tilted_as_function(losses, 0.7)),
    "plain": (plain, plain_as_function),
}
