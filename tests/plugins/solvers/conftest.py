"""Data, forms, traces and numpy re-implementations that the tests of the solvers share."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from torch import Tensor

from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import ElasticNet, Regularizer
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess, Solver


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Data(NamedTuple):
    """Rows `z_i` and signs `y_i` of a classification problem."""

    rows: Tensor
    signs: Tensor

    @property
    def start(self) -> Tensor:
        return torch.zeros(self.rows.shape[1], dtype=self.rows.dtype)

    @property
    def losses(self) -> LinearMarginLosses:
        return LinearMarginLosses(self.rows, self.signs, LogisticLoss())

    def robust(self, gamma: float, regularizer: Regularizer | None = None) -> RobustRisk:
        """Return the KL-robust logistic risk."""
        return RobustRisk(self.losses, KLPenalty(gamma), regularizer or ElasticNet(l2=1e-2))

    def kl(self, gamma: float, regularizer: Regularizer | None = None) -> Composite:
        """Return the same as a composite."""
        return find_route(self.robust(gamma, regularizer), (Composite,), ReformulationConfig()).form

    def oracle(self, gamma: float, seed: int, regularizer: Regularizer | None = None) -> CompositeOracle:
        return CompositeOracle(self.kl(gamma, regularizer), seed, self.start)

    def numpy(self) -> "NumpyLogistic":
        return NumpyLogistic((self.rows * self.signs[:, None]).numpy().astype(np.float64))


class NumpyLogistic:
    """Logistic losses and their KL-robust risk, written once more in numpy."""

    def __init__(self, signed: np.ndarray) -> None:
        self.signed = signed
        self.m, self.n = signed.shape

    def linearize(self, x: np.ndarray, index: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Return losses `(rows,)` and gradients `(rows, n)`."""
        margins = self.signed[index] @ x
        return np.logaddexp(0.0, -margins), -expit(-margins)[:, None] * self.signed[index]

    def robust(self, x: np.ndarray, gamma: float, mu: float) -> tuple[float, np.ndarray]:
        """Return value and gradient of the KL risk, which is the mean for `gamma = inf`, plus `mu / 2 |x|^2`."""
        losses, gradients = self.linearize(x)
        if math.isinf(gamma):
            return float(losses.mean() + 0.5 * mu * x @ x), gradients.mean(axis=0) + mu * x
        total = logsumexp(losses / gamma)
        weights = np.exp(losses / gamma - total)
        value = gamma * (total - math.log(self.m)) + 0.5 * mu * x @ x
        return float(value), weights @ gradients + mu * x

    def hessian(self, x: np.ndarray, gamma: float) -> np.ndarray:
        """Return the Hessian of the KL risk, which is the mean for `gamma = inf`."""
        losses, gradients = self.linearize(x)
        weights = np.exp(losses / gamma - logsumexp(losses / gamma))
        slopes = expit(self.signed @ x)
        mean = weights @ gradients
        hessian = (self.signed.T * (weights * slopes * (1.0 - slopes))) @ self.signed
        hessian += ((gradients.T * weights) @ gradients - np.outer(mean, mean)) / gamma
        return hessian

    def curvature(self, x: np.ndarray, gamma: float) -> float:
        """Return the top eigenvalue of the Hessian of the KL risk."""
        return float(np.linalg.eigvalsh(self.hessian(x, gamma))[-1])

    def optimum(self, gamma: float, mu: float) -> tuple[np.ndarray, float]:
        """Return the minimiser and the minimum, certified by the gradient and the strong convexity `mu`."""
        found = minimize(
            self.robust,
            np.zeros(self.n),
            args=(gamma, mu),
            jac=True,
            method="L-BFGS-B",
            options={"gtol": 1e-12, "ftol": 1e-16, "maxiter": 10000},
        )
        point = found.x
        # Near the minimum differences of values are rounding, and the line search may give up too early.
        for _ in range(2):
            _, gradient = self.robust(point, gamma, mu)
            point = point - np.linalg.solve(self.hessian(point, gamma) + mu * np.eye(self.n), gradient)
        value, gradient = self.robust(point, gamma, mu)
        assert gradient @ gradient / (2.0 * mu) < 1e-13
        return point, value


@pytest.fixture
def synthetic() -> Callable[..., Data]:
    """Return the ill-conditioned random problem: columns scaled from 1 down to 1/10, labels with noise."""

    def make(m: int, n: int, seed: int) -> Data:
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(m, n, generator=generator, dtype=torch.float64)
        weights = 3.0 * torch.randn(n, generator=generator, dtype=torch.float64) / math.sqrt(n)
        signs = torch.sign(rows @ weights + torch.randn(m, generator=generator, dtype=torch.float64))
        signs[signs == 0] = 1.0
        return Data(rows * 10.0 ** (-torch.arange(n, dtype=torch.float64) / (n - 1)), signs)

    return make


@pytest.fixture
def twenty() -> Data:
    """Return twenty rows given by formulas, for which optima are known to twelve digits."""
    i = torch.arange(1, 21, dtype=torch.float64)[:, None]
    k = torch.arange(1, 4, dtype=torch.float64)
    rows = torch.sin(i * k) + 0.5 * torch.cos(2 * i + k)
    signs = torch.where(torch.sin(3 * i[:, 0]) + 0.3 > 0, 1.0, -1.0).to(torch.float64)
    return Data(rows, signs)


@pytest.fixture
def single() -> Data:
    """Return a single sample."""
    return Data(torch.tensor([[1.0, 2.0]], dtype=torch.float64), torch.ones(1, dtype=torch.float64))


class HalfSquare(OuterFunction):
    """`f(y) = |y|^2 / 2`."""

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return 0.5 * inner_value.dot(inner_value)

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return inner_value


@pytest.fixture
def half_square() -> HalfSquare:
    return HalfSquare()


@pytest.fixture
def trace() -> Callable[..., list[Any]]:
    """Return the states of a run, the initial one first."""

    def run(solver: Solver[Any], oracle: Any, start: Tensor, steps: int) -> list[Any]:
        communicator = SingleProcess()
        states = [solver.init(start, oracle, communicator)]
        for _ in range(steps):
            states.append(solver.step(states[-1], oracle, communicator))
        return states

    return run
