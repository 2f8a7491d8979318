"""Composites of three kinds, each with its terms row by row in numpy and without any shift, for solvers to be compared.

kl        g_i = exp(f_i / gamma), f = gamma ln, r = (mu / 2) |x|^2
variance  h_i = f_i + (f_i - c)^2 / (2 gamma), g_i = f_i, f = -(y - c)^2 / (2 gamma), the same r
transport h_i = l(t_i) + ts softplus((t_i - lam kappa) / ts) over (beta, lam),
          r = eps lam + (mu / 2) |beta|^2 on the cone |beta|_2 <= lam
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import expit
from torch import Tensor

from drobench.objective.ambiguity_sets import Chi2Variance, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, FiniteSum, RobustRisk
from drobench.objective.losses import LinearMarginLosses, Margin
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.wasserstein import WassersteinRisk
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route

GAMMA, MU, RADIUS, FLIP_COST, WIDTH = 0.4, 0.05, 0.1, 1.0, 0.1
KINDS = ("kl", "variance", "transport")


class Terms(NamedTuple):
    """Per row: `g (rows, p)`, `J (rows, p, d)`, gradients of `h` `(rows, d)`."""

    inner: np.ndarray
    jacobian: np.ndarray
    loss: np.ndarray

    def mean(self) -> "Terms":
        return Terms(*(part.mean(axis=0) for part in self))


class Sample(NamedTuple):
    """A composite, and the same in numpy."""

    form: Composite
    start: Tensor
    terms: Callable[..., Terms]
    slope: Callable[[np.ndarray], np.ndarray]
    """`f'`."""
    prox: Callable[[np.ndarray, float], np.ndarray]
    rows: int

    def oracle(self, seed: int) -> CompositeOracle:
        return CompositeOracle(self.form, seed, self.start)

    def direction(self, terms: Terms, inner: np.ndarray | None = None) -> np.ndarray:
        """Return `J^T f'(y) + h'` for means."""
        return self.slope(terms.inner if inner is None else inner) @ terms.jacobian + terms.loss

    def draw(self, generator: np.random.Generator, size: int) -> np.ndarray:
        if size >= self.rows:
            return np.arange(self.rows)
        return generator.choice(self.rows, size, replace=False, shuffle=False)


def composite_sample(kind: str, data: Any) -> Sample:
    """Return the sample of this kind on some data."""
    problem = data.numpy()
    zero = np.zeros((0,))

    def shrink(v: np.ndarray, eta: float) -> np.ndarray:
        return v / (1.0 + eta * MU)

    def losses(x: np.ndarray, index: Any) -> tuple[np.ndarray, np.ndarray]:
        return problem.linearize(x, index)

    if kind == "kl":
        form = find_route(
            RobustRisk(data.losses, KLPenalty(GAMMA), ElasticNet(l2=MU)), (Composite,), ReformulationConfig()
        ).form

        def tilted(x: np.ndarray, index: Any = slice(None)) -> Terms:
            values, gradients = losses(x, index)
            powers = np.exp(values / GAMMA)
            return Terms(powers[:, None], (powers / GAMMA)[:, None, None] * gradients[:, None], 0.0 * gradients)

        return Sample(form, data.start, tilted, lambda y: GAMMA / y, shrink, problem.m)
    if kind == "variance":
        form = find_route(
            RobustRisk(data.losses, Chi2Variance(GAMMA), ElasticNet(l2=MU)), (Composite,), ReformulationConfig()
        ).form
        centre = float(np.log(2.0))

        def spread(x: np.ndarray, index: Any = slice(None)) -> Terms:
            values, gradients = losses(x, index)
            slopes = 1.0 + (values - centre) / GAMMA
            return Terms(values[:, None], gradients[:, None], slopes[:, None] * gradients)

        return Sample(form, data.start, spread, lambda y: -(y - centre) / GAMMA, shrink, problem.m)
    risk = WassersteinRisk(
        LinearMarginLosses(data.rows, data.signs, Margin()), RADIUS, FLIP_COST, "l2", ElasticNet(l2=MU)
    )
    route = find_route(risk, (Composite,), ReformulationConfig(gamma=WIDTH))

    def transport(x: np.ndarray, index: Any = slice(None)) -> Terms:
        rows = problem.signed[index]
        margins = rows @ x[:-1]
        flipped = expit((margins - x[-1] * FLIP_COST) / WIDTH)
        by_margin = -expit(-margins) + flipped
        gradients = np.concatenate([by_margin[:, None] * rows, -FLIP_COST * flipped[:, None]], axis=1)
        return Terms(np.zeros((len(rows), 0)), np.zeros((len(rows), 0, len(x))), gradients)

    def cone(v: np.ndarray, eta: float) -> np.ndarray:
        weight = 1.0 + eta * MU
        beta, bound = v[:-1] / weight, v[-1] - eta * RADIUS
        length = float(np.linalg.norm(beta))
        if length > bound:
            bound = max((weight * length + bound) / (weight + 1.0), 0.0)
            beta = beta * bound / length
        return np.append(beta, bound)

    return Sample(route.form, route.lift(data.start), transport, lambda _: zero, cone, problem.m)


def half_spaces(widths: float = 0.3) -> tuple[CompositeOracle, Tensor, float]:
    """Return a smoothed constrained problem over 30 samples and 12 half-spaces, its start and its least value."""
    from constrained_samples import HalfSpaces, Squares

    generator = torch.Generator().manual_seed(0)
    targets = 1.0 + torch.randn(30, 3, generator=generator, dtype=torch.float64)
    normals = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    bounds = torch.full((12,), 0.3, dtype=torch.float64)
    form = Constrained(FiniteSum(Squares(targets), ElasticNet(l2=MU)), HalfSpaces(normals, bounds))
    route = find_route(form, (Composite,), ReformulationConfig(alpha=3.0, gamma=widths))
    start = torch.zeros(3, dtype=torch.float64)

    def value(x: np.ndarray) -> float:
        exponents = 3.0 * (normals.numpy() @ x - 0.3) / widths
        penalty = widths * (np.logaddexp.reduce(np.append(exponents, 0.0)) - np.log(13.0))
        return float(0.5 * ((x - targets.numpy()) ** 2).sum(axis=1).mean() + penalty + 0.5 * MU * x @ x)

    found = minimize(value, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    return CompositeOracle(route.form, 0, start), start, float(found.fun)
