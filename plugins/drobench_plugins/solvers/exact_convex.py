"""Reference solver for convex problems: the whole original problem at once, to machine accuracy.

Smooth problems go to L-BFGS-B on the exact objective, where an l1 part is split into `x = u - v` with `u, v >= 0`.
Problems with kinks (CVaR, the worst group, balls that reach the worst case, Wasserstein) go to a conic interior-point
method, or where that would be too large to L-BFGS on smoothed objectives. One step of this solver is a whole solve. The
state also carries the adversary's reply where the point alone does not determine it; whoever uses the value recomputes
a bound from both.

References: Byrd, Lu, Nocedal, Zhu (1995) for L-BFGS-B; Goulart and Chen (2024) for Clarabel; Diamond and Boyd (2016)
for cvxpy; Tseng and Bertsekas (1993) for the method of multipliers.
"""

import contextlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drobench.errors import DrobenchError, require_positive
from drobench.objective.ambiguity_sets import AmbiguitySet, Chi2Ball, CVaR, KLBall
from drobench.objective.forms import FiniteSum, RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.losses import LinearMarginLosses, LinearScoreLosses, LogisticLoss, Losses, smooth_hinge
from drobench.objective.oracles.reference import ReferenceOracle
from drobench.objective.regularizers import ElasticNet, Regularizer, Zero
from drobench.objective.wasserstein import WassersteinRisk
from drobench.registry import SolverEntry
from drobench.solver import Communicator, Solver

# Relative size below which a coordinate of a conic solution is taken for zero.
_ZERO = 1e-7
_WARM_ITERATIONS = 100
# Relative spread below which losses count as equal.
_EQUAL = 1e-5
# Beyond this many exponential cones the conic solver becomes slow and then fails.
_MOST_CONIC_SAMPLES = 2000
_WIDTHS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
_GROUP_WIDTHS = (1e-1, 1e-2, 1e-3)
_GROUP_ROUNDS = 6
_ORDERS: dict[str, Any] = {"l1": 1, "l2": 2, "linf": "inf"}


@dataclass
class ExactConvexConfig:
    """Accuracy of the reference."""

    tolerance: float = 1e-12
    """Largest gradient component at which L-BFGS may stop."""
    iterations: int = 20000
    conic_tolerance: float = 1e-10

    def __post_init__(self) -> None:
        require_positive(self, "tolerance", "iterations", "conic_tolerance")


@dataclass(frozen=True)
class ExactConvexState:
    """The solution, once there is one, and the adversary's reply."""

    point: Tensor
    dual: Tensor | None
    solved: bool


class ExactConvex(Solver[ExactConvexState]):
    """See the module's text."""

    def __init__(self, config: ExactConvexConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: ReferenceOracle, communicator: Communicator) -> ExactConvexState:
        return ExactConvexState(start, None, solved=False)

    def step(self, state: ExactConvexState, oracle: ReferenceOracle, communicator: Communicator) -> ExactConvexState:
        if state.solved:
            return state
        form: Any = oracle.materialise()
        if isinstance(form, WassersteinRisk):
            point, dual = _solve_wasserstein(form, self.config)
        elif isinstance(form, RobustRisk) and (level := _tail_level(form.ambiguity, form.losses.samples)) is not None:
            solve = _solve_tail if form.losses.samples <= _MOST_CONIC_SAMPLES else _solve_tail_smoothly
            point, dual = solve(form, level, self.config)
        elif isinstance(form, RobustRisk) and isinstance(form.ambiguity, GroupAdversary) and form.ambiguity.worst_only:
            if form.losses.samples <= _MOST_CONIC_SAMPLES and _has_cones(form.losses):
                point, dual = _solve_worst_group(form, form.ambiguity, self.config)
            else:
                point, dual = _solve_worst_group_smoothly(form, form.ambiguity, state.point, self.config)
        else:
            # Where all losses are equal, as at the origin, a ball has a kink: start from plain training instead.
            plain = FiniteSum(form.losses, form.regularizer)
            first = _solve_smooth(plain, state.point, replace(self.config, iterations=_WARM_ITERATIONS))
            point, dual = _solve_smooth(form, first, self.config), None
            if isinstance(form, RobustRisk) and _at_kink(form, point):
                point, dual = _solve_ball(form, self.config)
        return ExactConvexState(point, dual, solved=True)

    def solution(self, state: ExactConvexState) -> Tensor:
        return state.point

    def ended(self, state: ExactConvexState) -> bool:
        return state.solved


def _tail_level(ambiguity: AmbiguitySet, samples: int) -> float | None:
    """Return the share of samples that the adversary may concentrate on, where that is all it does."""
    if isinstance(ambiguity, CVaR):
        return ambiguity.level
    if isinstance(ambiguity, KLBall) and ambiguity.radius >= math.log(samples):
        return 1.0 / samples
    if isinstance(ambiguity, Chi2Ball) and ambiguity.radius >= 0.5 * (samples - 1):
        return 1.0 / samples
    return None


def _weights(regularizer: Regularizer) -> tuple[float, float]:
    """Return the l1 and l2 weights of a regularizer, or refuse it."""
    if isinstance(regularizer, ElasticNet):
        return regularizer.l1, regularizer.l2
    if isinstance(regularizer, Zero):
        return 0.0, 0.0
    raise DrobenchError(f"exact_convex knows no {type(regularizer).__name__}; it needs l1 and l2 parts.")


ValueAndGradient = Callable[[Tensor], tuple[Tensor, Tensor]]


def _solve_smooth(form: RobustRisk | FiniteSum, start: Tensor, config: ExactConvexConfig) -> Tensor:
    """Minimise a smooth objective plus its l1 part."""
    l1, l2 = _weights(form.regularizer)

    def smooth(point: Tensor) -> tuple[Tensor, Tensor]:
        value = form.value(point) - l1 * point.abs().sum()
        return value, form.smooth_gradient(point) + l2 * point

    return _quasi_newton(smooth, start, l1, start.numel(), config)


def _quasi_newton(smooth: ValueAndGradient, start: Tensor, l1: float, sparse: int, config: ExactConvexConfig) -> Tensor:
    """Minimise `smooth + l1 |first `sparse` coordinates|_1` by L-BFGS-B."""
    from scipy.optimize import minimize  # noqa: PLC0415  # a third of a second that no other solver needs

    def whole(variables: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = smooth(torch.from_numpy(variables).to(start))
        return float(value), gradient.to(torch.float64).cpu().numpy()

    def split(variables: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = whole(_joined(variables, sparse))
        parts = [gradient[:sparse] + l1, -gradient[:sparse] + l1, gradient[sparse:]]
        return value + l1 * float(variables[: 2 * sparse].sum()), np.concatenate(parts)

    first = start.to(torch.float64).cpu().numpy()
    options = {"gtol": config.tolerance, "ftol": 0.0, "maxiter": config.iterations, "maxfun": 10 * config.iterations}
    if l1 == 0.0:
        solution = minimize(whole, first, jac=True, method="L-BFGS-B", options=options).x
    else:
        signed = first[:sparse]
        variables = np.concatenate([signed.clip(min=0.0), (-signed).clip(min=0.0), first[sparse:]])
        bounds = [(0.0, None)] * (2 * sparse) + [(None, None)] * (first.size - sparse)
        found = minimize(split, variables, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        solution = _joined(found, sparse)
    return torch.from_numpy(solution).to(start)


def _joined(variables: np.ndarray, sparse: int) -> np.ndarray:
    """Return `(u - v, rest)` from `(u, v, rest)`."""
    return np.concatenate([variables[:sparse] - variables[sparse : 2 * sparse], variables[2 * sparse :]])


def _solve_tail_smoothly(form: RobustRisk, level: float, config: ExactConvexConfig) -> tuple[Tensor, Tensor]:
    """Solve the tail problem for many samples: the hinge smoothed ever less, each width from the solution before.

    The smoothed hinge's slopes are the adversary's weights, and at the last width both are as good as exact.
    """
    losses = form.losses
    l1, l2 = _weights(form.regularizer)
    size, samples = losses.dimension, losses.samples
    first = _solve_smooth(FiniteSum(losses, form.regularizer), losses.origin(), config)
    joint = torch.cat([first, torch.quantile(losses.values(first), 1.0 - level)[None]])
    weights = torch.full((samples,), 1.0 / samples)
    for width in _WIDTHS:

        def smooth(point: Tensor, width: float = width) -> tuple[Tensor, Tensor]:
            values, pullback = losses.linearize(point[None, :size], slice(None))
            hinge, slopes = smooth_hinge(values - point[size], width)
            slopes = slopes / (level * samples)
            gradient = pullback(slopes[:, None])[0, 0] + l2 * point[:size]
            value = point[size] + hinge.sum() / (level * samples) + 0.5 * l2 * point[:size].square().sum()
            return value, torch.cat([gradient, (1.0 - slopes.sum())[None]])

        joint = _quasi_newton(smooth, joint, l1, size, config)
        _, slopes = smooth_hinge(losses.values(joint[:size]) - joint[size], width)
        weights = slopes / (level * samples)
    return joint[:size], weights


def _solve_tail(form: RobustRisk, level: float, config: ExactConvexConfig) -> tuple[Tensor, Tensor]:
    """Solve `min e + mean (f_i - e)_+ / level + r`; the multipliers of the excesses are the adversary's weights."""
    import cvxpy as cp  # noqa: PLC0415  # more than a second that no other solver needs

    losses = form.losses
    level = max(level, 1.0 / losses.samples)
    point = cp.Variable(losses.dimension)
    threshold, excess = cp.Variable(), cp.Variable(losses.samples, nonneg=True)
    values, conditions = _conic_losses(losses, point)
    above = excess >= values - threshold
    l1, l2 = _weights(form.regularizer)
    objective = threshold + cp.sum(excess) / (level * losses.samples)
    objective += l1 * cp.norm1(point) + 0.5 * l2 * cp.sum_squares(point)
    _solve(cp.Problem(cp.Minimize(objective), [above, *conditions]), config)
    weights = torch.from_numpy(np.asarray(above.dual_value)).to(losses.origin())
    return _cleaned(point.value, l1, losses.origin()), weights


def _solve_worst_group(form: RobustRisk, ambiguity: GroupAdversary, config: ExactConvexConfig) -> tuple[Tensor, Tensor]:
    """Solve `min t + r` with all group means at most `t`; the multipliers of the groups are the adversary's weights."""
    import cvxpy as cp  # noqa: PLC0415
    from scipy.sparse import csr_matrix  # noqa: PLC0415

    losses = form.losses
    point, largest = cp.Variable(losses.dimension), cp.Variable()
    values, conditions = _conic_losses(losses, point)
    rows = np.arange(losses.samples)
    sizes, groups = ambiguity.sizes.cpu().numpy(), ambiguity.groups.cpu().numpy()
    averages = csr_matrix((1.0 / sizes[groups], (groups, rows)), shape=(sizes.size, losses.samples))
    below = averages @ values <= largest
    l1, l2 = _weights(form.regularizer)
    objective = largest + l1 * cp.norm1(point) + 0.5 * l2 * cp.sum_squares(point)
    _solve(cp.Problem(cp.Minimize(objective), [below, *conditions]), config)
    weights = torch.from_numpy(np.asarray(below.dual_value).reshape(-1)).to(losses.origin())
    return _cleaned(point.value, l1, losses.origin()), ambiguity.spread(weights)


def _solve_worst_group_smoothly(
    form: RobustRisk, ambiguity: GroupAdversary, start: Tensor, config: ExactConvexConfig
) -> tuple[Tensor, Tensor]:
    """Solve the same by the exponential method of multipliers (Tseng and Bertsekas 1993).

    Each round minimises `s ln sum q_g exp(L_g / s) + r` for the weights `q` and the width `s` of the round, and the
    weights that are optimal there are the next `q`. With the right weights every width gives the exact solution, so
    that widths need not become so small that the objective is badly conditioned.
    """
    losses = form.losses
    l1, l2 = _weights(form.regularizer)
    point = _solve_smooth(FiniteSum(losses, form.regularizer), start, replace(config, iterations=_WARM_ITERATIONS))
    weights = point.new_full((ambiguity.count,), 1.0 / ambiguity.count)
    for width in (*_GROUP_WIDTHS, *[_GROUP_WIDTHS[-1]] * _GROUP_ROUNDS):
        logarithms = weights.log()

        def smooth(at: Tensor, width: float = width, logarithms: Tensor = logarithms) -> tuple[Tensor, Tensor]:
            values, pullback = losses.linearize(at[None], slice(None))
            exponents = logarithms + ambiguity.means(values[0]) / width
            by_sample = ambiguity.spread(torch.softmax(exponents, dim=0))
            value = width * torch.logsumexp(exponents, dim=0) + 0.5 * l2 * at.square().sum()
            return value, pullback(by_sample[None, None])[0, 0] + l2 * at

        point = _quasi_newton(smooth, point, l1, losses.dimension, config)
        weights = torch.softmax(logarithms + ambiguity.means(losses.values(point)) / width, dim=0)
    return point, ambiguity.spread(weights)


def _at_kink(form: RobustRisk, point: Tensor) -> bool:
    """Return whether a ball's solution is where all losses are equal: there the point does not determine the reply."""
    losses = form.losses.values(point)
    ball = isinstance(form.ambiguity, KLBall | Chi2Ball) and form.ambiguity.radius > 0.0
    return ball and float(losses.max() - losses.min()) <= _EQUAL * (1.0 + float(losses.abs().max()))


def _solve_ball(form: RobustRisk, config: ExactConvexConfig) -> tuple[Tensor, Tensor]:
    """Solve a ball's dual as a conic program; the multipliers of the losses are the adversary's weights."""
    import cvxpy as cp  # noqa: PLC0415

    losses, ball = form.losses, form.ambiguity
    assert isinstance(ball, KLBall | Chi2Ball)
    point, threshold = cp.Variable(losses.dimension), cp.Variable()
    values, conditions = _conic_losses(losses, point)
    raised = cp.Variable(losses.samples)
    above = raised >= values
    if isinstance(ball, Chi2Ball):
        excess = cp.Variable(losses.samples, nonneg=True)
        conditions.append(excess >= raised - threshold)
        objective = threshold + math.sqrt((1.0 + 2.0 * ball.radius) / losses.samples) * cp.norm2(excess)
    else:
        temperature, powers = cp.Variable(nonneg=True), cp.Variable(losses.samples)
        level = np.ones(losses.samples)
        conditions.append(cp.ExpCone(raised - threshold * level, temperature * level, powers))
        conditions.append(cp.sum(powers) <= losses.samples * temperature)
        objective = threshold + ball.radius * temperature
    l1, l2 = _weights(form.regularizer)
    objective += l1 * cp.norm1(point) + 0.5 * l2 * cp.sum_squares(point)
    _solve(cp.Problem(cp.Minimize(objective), [above, *conditions]), config)
    return _cleaned(point.value, l1, losses.origin()), torch.from_numpy(above.dual_value).to(losses.origin())


def _has_cones(losses: Losses) -> bool:
    """Return whether `_conic_losses` knows these losses."""
    margins = isinstance(losses, LinearMarginLosses) and isinstance(losses.loss, LogisticLoss)
    return margins or isinstance(losses, LinearScoreLosses)


def _conic_losses(losses: Losses, point: Any) -> tuple[Any, list[Any]]:
    """Return variables for the losses and the conditions that tie them to the parameters.

    Margins and losses as variables of their own keep the cones small and the matrix in one place.
    """
    import cvxpy as cp  # noqa: PLC0415

    values = cp.Variable(losses.samples)
    if isinstance(losses, LinearMarginLosses) and isinstance(losses.loss, LogisticLoss):
        margins = cp.Variable(losses.samples)
        return values, [margins == losses.signed_rows.cpu().numpy() @ point, cp.logistic(-margins) <= values]
    if isinstance(losses, LinearScoreLosses):
        rows, classes = losses.rows.cpu().numpy(), losses.classes
        scores = rows @ cp.reshape(point, (classes, rows.shape[1]), order="C").T
        chosen = np.eye(classes)[losses.targets.cpu().numpy()]
        return values, [cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(chosen, scores), axis=1) <= values]
    raise DrobenchError(f"exact_convex cannot write {type(losses).__name__} as a conic program.")


def _solve_wasserstein(form: WassersteinRisk, config: ExactConvexConfig) -> tuple[Tensor, Tensor]:
    """Solve the reduced problem, with one logistic cone per sample since `l(-t) = l(t) + t`."""
    import cvxpy as cp  # noqa: PLC0415

    rows = form.margins.signed_rows.cpu().numpy()
    samples, dimension = rows.shape
    point, bound = cp.Variable(dimension), cp.Variable()
    margins, losses, slacks = cp.Variable(samples), cp.Variable(samples), cp.Variable(samples)
    conditions = [
        margins == rows @ point,
        cp.logistic(-margins) <= losses,
        losses <= slacks,
        cp.norm(point[: dimension - form.free], _ORDERS[form.dual_norm]) <= bound,
    ]
    flips = losses + margins - bound * form.flip_cost <= slacks if math.isfinite(form.flip_cost) else None
    l1, l2 = _weights(form.regularizer)
    objective = form.radius * bound + cp.sum(slacks) / samples + 0.5 * l2 * cp.sum_squares(point) + l1 * cp.norm1(point)
    _solve(cp.Problem(cp.Minimize(objective), conditions + ([] if flips is None else [flips])), config)
    hinge = np.zeros(samples) if flips is None else np.asarray(flips.dual_value)
    # The equation's multiplier is the difference of the two, and interior-point methods keep it feasible.
    logistic = hinge + _oriented(np.asarray(conditions[0].dual_value), hinge)
    dual = torch.from_numpy(np.stack([hinge, logistic])).to(form.margins.origin())
    return _cleaned(point.value, l1, form.margins.origin()), dual


def _oriented(multipliers: np.ndarray, hinge: np.ndarray) -> np.ndarray:
    """Return an equation's multipliers with the sign that makes `hinge + multipliers` non-negative."""
    return multipliers if (hinge + multipliers).min() >= (hinge - multipliers).min() else -multipliers


def _cleaned(solution: Any, l1: float, template: Tensor) -> Tensor:
    """Return the solution; with an l1 part, what the conic solver left of a zero becomes one."""
    if l1 > 0.0:
        solution = np.where(np.abs(solution) <= _ZERO * (1.0 + np.abs(solution).max()), 0.0, solution)
    return torch.from_numpy(solution).to(template)


def _solve(problem: Any, config: ExactConvexConfig) -> None:
    import cvxpy as cp  # noqa: PLC0415

    # What is asked for may be beyond the reach of an interior-point method on a large instance; then less will do.
    for accuracy in (config.conic_tolerance, 1e2 * config.conic_tolerance, 1e4 * config.conic_tolerance):
        with warnings.catch_warnings():
            # Near machine accuracy Clarabel may call its own answer inaccurate; the recomputed bound decides.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate", category=UserWarning)
            with contextlib.suppress(cp.error.SolverError):
                problem.solve(solver=cp.CLARABEL, tol_gap_abs=accuracy, tol_gap_rel=accuracy, tol_feas=accuracy)
        if problem.status in ("optimal", "optimal_inaccurate"):
            return
    raise DrobenchError(f"The conic solver ended with status {problem.status or 'failed'}.")


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="exact_convex",
        summary="Reference: L-BFGS or a conic solver on the whole convex problem, to machine accuracy.",
        reference="Byrd, Lu, Nocedal, Zhu (1995); Goulart, Chen (2024); Diamond, Boyd (2016)",
        config=ExactConvexConfig,
        factory=ExactConvex,
        accepts=(RobustRisk, WassersteinRisk, FiniteSum),
        exact=True,
        goal_gap=1e-9,
        one_process="it hands the whole problem to a library, and every process would compute the same",
    )
