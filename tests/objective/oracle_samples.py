"""Small forms for the tests of the oracles: one of each kind, with numbers of rows that tell them apart."""

import torch

from drobench.objective.composite import Composite, Means
from drobench.objective.composites.losses import LossTerms, LossTransform
from drobench.objective.forms import Constraints, MinMax
from drobench.objective.outer_functions import ScaledLog

SAMPLES = 12
CONSTRAINTS = 5
DIMENSION = 4
START = torch.zeros(DIMENSION, dtype=torch.float64)
ZERO = torch.zeros((), dtype=torch.float64)


class InnerAndLoss(LossTransform):
    """`g = f^2` and `h = f`."""

    outputs = 1
    has_losses = True

    def apply(self, losses, shift):
        ones = torch.ones_like(losses)
        return LossTerms(losses.square()[:, None], 2 * losses[:, None], losses, ones, losses.new_zeros(()))


class FlooredLog(ScaledLog):
    """A logarithm whose argument is known to be at least `exp(-shift)`."""

    def smallest(self, shift):
        return float((-shift).exp())


class TwoSets(Composite):
    """`h` is the mean of the losses over samples, `g` the mean of `exp(<a_k, x>)` over constraints."""

    constraints = CONSTRAINTS
    outputs = 1
    has_losses = True

    def __init__(self, losses, directions, regularizer, outer=None):
        self.losses = losses
        self.directions = directions
        self.regularizer = regularizer
        self.outer = outer or FlooredLog(1.0)
        self.dimension, self.samples = losses.dimension, losses.samples

    def estimate(self, points, rows, shift):
        directions = self.directions[rows.constraints]
        terms = (points @ directions.T).exp() / max(directions.shape[0], 1)
        loss_value, loss_gradient = self.losses.mean(points, rows.samples)
        value = terms.sum(dim=-1, keepdim=True)
        return Means(value, (terms @ directions)[:, None], loss_value, loss_gradient, value * rows.covered, ZERO)


class HalfSpaces(Constraints):
    """`<a_k, x> <= 1`."""

    count = CONSTRAINTS
    dimension = DIMENSION

    def __init__(self, directions):
        self.directions = directions
        self.features = directions

    def surrogates(self, points, index):
        directions = self.directions[index]
        return points @ directions.T - 1.0, lambda cotangents: cotangents @ directions

    def violations(self, points, index):
        return (points @ self.directions[index].T > 1.0).to(points.dtype)


class Bilinear(MinMax):
    """`x w` on the box `[-1, 1]^2`."""

    dimension = 2
    samples = SAMPLES

    def start(self, point):
        return torch.cat([point, torch.ones(1, dtype=point.dtype)])

    def operator(self, joint, rows):
        return torch.stack([joint[1], -joint[0]])

    def project(self, joint):
        return joint.clamp(-1, 1)
