"""Lower bounds on the optimum, from a point and the adversary's reply: what makes a reference value believable.

For an adversary's weights `q` with penalty `D(q)`, `min_x L(x, q) = sum q_i f_i(x) - D(q) + r(x)` is below the optimum.
That minimum is itself bounded from below in one of two ways:

    strong convexity  L(x, q) - |s|^2 / (2 mu)  for a subgradient s of L(., q) at x
    conjugates        l(s) >= u s - l*(u) for any slope u of the loss, so -sum q_i l*(u_i) - |A^T (q u)|^2 / (2 l2)
                      bounds it; where a row is at a kink its slope is chosen so that the second part is least
    logistic dual     l(t) = max over u in [0, 1] of -u t + H(u), so sum q_i H(u_i) bounds it whenever the linear part
                      that is left over, A^T (q u), is covered by the regularizer's l1 part

For the Wasserstein problem the same works with one more multiplier per sample for the hinge. Under constraints
`c_k(x) <= 0` the multipliers `l >= 0` take the place of the weights: `min_x f(x) + r(x) + <l, c(x)>` is below the
optimum, and strong convexity bounds it; for a quadratic `f` of one curvature and linear `c` without loss. Nothing here
trusts a solver: every candidate is made feasible first, and a poor candidate only gives a poor bound. Where feasibility
is an equation, which floating point meets only to rounding, the remainder is charged at `1 + 2 |x|`. A form that brings
its own `lower_bound` is asked for that.
"""

import math

import torch
from scipy.optimize import lsq_linear
from torch import Tensor

from drobench.objective.forms import Constrained, FiniteSum, NativeForm, RobustRisk
from drobench.objective.losses import LinearLosses, LinearMarginLosses, LinearTargetLosses, LogisticLoss
from drobench.objective.regularizers import Box, ElasticNet, EuclideanBall, Indicator, L1Ball
from drobench.objective.wasserstein import WassersteinRisk, norm_of

# How near to a score a kink counts, relative to the scores; and the difference of slopes that makes one.
_AT_KINK = 1e-6
_KINK = 1e-2
# Share of what is wanted below which a matrix counts for nothing.
_NEGLIGIBLE = 1e-12


def lower_bound(form: NativeForm, point: Tensor, dual: Tensor | None = None) -> float | None:
    """Return a number that the optimum of a convex `form` is not below, or `None` where no bound is known.

    Args:
        form: The problem.
        point: A point, at best the minimiser.
        dual: The adversary's reply if it is not determined by the point: weights `(m,)`, or for the Wasserstein
            problem the multipliers `(2, m)` of hinges and logistic losses. Under constraints their multipliers,
            those of the cheap ones last; without them the constraints are left out.
    """
    if type(form).lower_bound is not NativeForm.lower_bound:
        return form.lower_bound(point, dual)
    if isinstance(form, WassersteinRisk):
        bounds = [
            _wasserstein_bound(form, point, candidate) for candidate in ([None] if dual is None else [None, dual])
        ]
        return max(bounds)
    if isinstance(form, FiniteSum):
        weights = point.new_full((form.losses.samples,), 1.0 / form.losses.samples)
        return _fixed_weights_bound(form, point, weights, 0.0)
    if isinstance(form, RobustRisk):
        # Those that a solver returned may lie outside of a ball by rounding, and those of the point at a kink anywhere.
        replies = [form.ambiguity.weights(form.losses.values(point))]
        replies += [] if dual is None else [form.ambiguity.nearest(dual)]
        found = [_fixed_weights_bound(form, point, reply, form.ambiguity.penalty(reply)) for reply in replies]
        known = [bound for bound in found if bound is not None]
        return max(known) if known else None
    if isinstance(form, Constrained):
        return _constrained_bound(form, point, dual)
    return None


def _constrained_bound(form: Constrained, point: Tensor, dual: Tensor | None) -> float | None:
    """Return `L(x, l) - |s|^2 / (2 mu)` for the Lagrangian `L` at multipliers `l` and its subgradient `s` at `x`.

    Nothing is known where rates decide what is feasible and surrogates only bound them: the optimum may be lower.
    """
    objective, constraints = form.objective, form.constraints
    strength = objective.losses.strong_convexity + objective.regularizer.strong_convexity
    if not (form.convex and constraints.exact and strength > 0.0):
        return None
    value, gradient = objective.value(point), objective.smooth_gradient(point)
    if dual is not None:
        parts = [constraints.surrogates(point[None], slice(None))]
        parts += [constraints.cheap(point[None])] if constraints.cheap_count else []
        multipliers = dual.clamp(min=0.0)
        shares = [multipliers[: constraints.count], multipliers[constraints.count :]]
        for (found, pullback), share in zip(parts, shares, strict=False):
            value = value + share.dot(found[0])
            gradient = gradient + pullback(share[None, None])[0, 0]
    subgradient = objective.regularizer.least_subgradient(point, gradient)
    return float(value) - float(subgradient.square().sum()) / (2.0 * strength)


def _fixed_weights_bound(form: FiniteSum | RobustRisk, point: Tensor, weights: Tensor, penalty: float) -> float | None:
    """Return a lower bound of `min_x sum q_i f_i(x) + r(x) - penalty`."""
    values, pullback = form.losses.linearize(point[None], slice(None))
    gradient = pullback(weights[None, None])[0, 0]
    regularizer = form.regularizer
    # The weights add up to one, and what every loss has its mean has too.
    strength = regularizer.strong_convexity + form.losses.strong_convexity
    bounds = []
    if strength > 0.0:
        subgradient = regularizer.least_subgradient(point, gradient)
        value = float(weights.dot(values[0]) + regularizer.value(point))
        bounds.append(value - float(subgradient.square().sum()) / (2.0 * strength))
    losses = form.losses
    if (
        isinstance(losses, LinearMarginLosses)
        and isinstance(losses.loss, LogisticLoss)
        and isinstance(regularizer, ElasticNet)
    ):
        shares = torch.sigmoid(-(losses.signed_rows @ point))
        bound = _logistic_dual(losses.signed_rows, weights, shares, regularizer, point)
        bounds += [] if bound is None else [bound]
    if isinstance(losses, LinearLosses) and isinstance(regularizer, ElasticNet) and regularizer.l2 > 0.0:
        bound = _conjugate_bound(losses, point, weights, regularizer)
        bounds += [] if bound is None else [bound]
    return max(bounds) - penalty if bounds else None


def _conjugate_bound(losses: LinearLosses, point: Tensor, weights: Tensor, regularizer: ElasticNet) -> float | None:
    """Return `-sum q_i l*(u_i)` less what the quadratic part charges for the linear part `A^T (q u)`.

    `u` are the slopes at the point; those of rows at a kink may be anything within their range.
    """
    loss = losses.loss
    targets = losses.targets if isinstance(losses, LinearTargetLosses) else torch.ones_like(weights)
    products = losses.rows @ point
    _, slopes = loss.value_and_slope(products, targets)
    low, high = loss.slope_range(products, targets, _AT_KINK * (1.0 + float(products.abs().max())))
    kinked = high - low > _KINK
    if bool(kinked.any()):
        slopes = slopes.clone()
        slopes[kinked] = 0.0
        covered = point.abs() > 0.0 if regularizer.l1 > 0.0 else torch.ones_like(point, dtype=torch.bool)
        wanted = losses.rows.T @ (weights * slopes) + regularizer.l2 * point + regularizer.l1 * point.sign()
        matrix = (losses.rows[kinked] * weights[kinked, None]).T[covered]
        slopes[kinked] = _bounded_least_squares(matrix, -wanted[covered], low[kinked], high[kinked])
    conjugates = loss.conjugate(slopes, targets)
    if conjugates is None:
        return None
    uncovered = torch.nn.functional.softshrink(losses.rows.T @ (weights * slopes), regularizer.l1)
    return -float(weights.dot(conjugates)) - float(uncovered.square().sum()) / (2.0 * regularizer.l2)


def _bounded_least_squares(matrix: Tensor, wanted: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return the `u` between the bounds with the least `|matrix u - wanted|`."""
    arrays = (matrix.cpu().numpy(), wanted.cpu().numpy(), (low.cpu().numpy(), high.cpu().numpy()))
    # In the scale of its largest entry, since weights of many rows are small numbers; next to nothing against what is
    # wanted, it cannot make it up whatever the slopes are.
    scale = max(float(abs(arrays[0]).max()), _NEGLIGIBLE * float(abs(arrays[1]).max(initial=0.0)), 1e-300)
    found = lsq_linear(arrays[0] / scale, arrays[1] / scale, arrays[2], method="bvls", tol=1e-14)
    return torch.from_numpy(found.x).to(matrix).clamp(low, high)


def _logistic_dual(
    rows: Tensor, weights: Tensor, shares: Tensor, regularizer: ElasticNet, point: Tensor
) -> float | None:
    """Return `sum q_i H(u_i)` less what the regularizer does not cover of the linear part `A^T (q u)`.

    A quadratic part covers any linear part, at a price; an l1 part up to its weight; nothing covers only zero.
    """
    products = weights * shares
    residual = rows.T @ products
    if regularizer.l2 > 0.0:
        uncovered = torch.nn.functional.softshrink(residual, regularizer.l1)
        cost = float(uncovered.square().sum()) / (2.0 * regularizer.l2)
        return float((weights * _entropy(shares)).sum()) - cost
    if regularizer.l1 > 0.0:
        shares = shares * min(1.0, regularizer.l1 / max(float(residual.abs().max()), 1e-300))
        return float((weights * _entropy(shares)).sum())
    # The smallest change, in proportion to the weights, that cancels the linear part; shares must stay in [0, 1].
    weighted = rows * weights[:, None]
    corrected = products - weighted @ torch.linalg.lstsq(weighted.T @ rows, residual, driver="gelsd").solution
    if bool((corrected < 0).any()) or bool((corrected > weights).any()):
        return None
    left_over = float((rows.T @ corrected).norm()) * (1.0 + 2.0 * float(point.norm()))
    shares = torch.where(weights > 0, corrected / weights.clamp(min=1e-300), torch.zeros_like(weights))
    return float((weights * _entropy(shares)).sum()) - left_over


def _entropy(shares: Tensor) -> Tensor:
    entropy: Tensor = -torch.special.xlogy(shares, shares) - torch.special.xlog1py(1.0 - shares, -shares)
    return entropy


def _wasserstein_bound(form: WassersteinRisk, point: Tensor, dual: Tensor | None) -> float:
    """Return the dual value of the reduced problem at multipliers made feasible.

    With `v_i` for the logistic losses and `c_i` for the hinges, both in `[0, 1/m]`, the Lagrangian is linear in
    `(w, lam)` and bounded on the cone exactly when `|A^T (c - v)| <= radius - kappa sum c` in the transport norm.
    """
    rows, samples = form.margins.signed_rows, form.margins.samples
    hinge, logistic = _multipliers(form, point) if dual is None else dual.clamp(0.0, 1.0 / samples)
    price = 0.0 if math.isinf(form.flip_cost) else form.flip_cost
    if math.isinf(form.flip_cost):
        hinge = torch.zeros_like(hinge)
    if price * float(hinge.sum()) > form.radius:
        hinge = hinge * (form.radius / (price * float(hinge.sum())))
    if form.free:
        logistic = _balance(rows[:, form.dimension - form.free :], logistic, hinge, samples, form.regularizer.l2)
    linear = rows.T @ (hinge - logistic)
    inner, free = linear[: form.dimension - form.free], linear[form.dimension - form.free :]
    strength = form.regularizer.l2
    if strength > 0.0:
        room = max(form.radius - price * float(hinge.sum()), 0.0)
        excess = inner - _norm_ball(form.norm, room).project(inner)
        cost = float(excess.square().sum() + free.square().sum()) / (2.0 * strength)
        return float(_entropy(samples * logistic).mean()) - cost
    needed = float(norm_of(inner, form.norm)) + price * float(hinge.sum())
    scale = min(1.0, form.radius / needed) if needed > 0.0 else 1.0
    left_over = float(free.norm()) * (1.0 + 2.0 * float(point.norm()))
    return float(_entropy(scale * samples * logistic).mean()) - left_over


def _multipliers(form: WassersteinRisk, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return the multipliers of hinges and losses that belong to a point without ties."""
    margins = form.margins.values(point)
    logistic = torch.sigmoid(-margins) / margins.numel()
    if math.isinf(form.flip_cost):
        return torch.zeros_like(margins), logistic
    flipped = margins > form.best_bound(point, margins) * form.flip_cost
    return flipped.to(margins.dtype) / margins.numel(), logistic


def _balance(columns: Tensor, logistic: Tensor, hinge: Tensor, samples: int, strength: float) -> Tensor:
    """Return multipliers whose linear part vanishes on the free coordinates, where no norm can absorb it."""
    if strength > 0.0:
        return logistic
    residual = columns.T @ (hinge - logistic)
    change = columns @ torch.linalg.solve(columns.T @ columns, residual)
    balanced: Tensor = (logistic + change).clamp(0.0, 1.0 / samples)
    return balanced


def _norm_ball(norm: str, radius: float) -> Indicator:
    if norm == "l2":
        return EuclideanBall(radius)
    return L1Ball(radius) if norm == "l1" else Box(-radius, radius)
