"""Draws that favour the rows which matter at a snapshot, known from the sweep that measured it.

    q_i = (1 - share) / m + share w_i / sum w,      each row drawn counts with 1 / (m q_i)

Means over such a draw are unbiased for any `w`, and no row counts with more than `1 / (1 - share)`. What matters is

    weighted_draws   the worst-case distribution: how much the adversary cares about a row
    leverage_draws   the leverage of a row in the metric of a method: how much of the Hessian, which holds those same
                     weights, is due to it. Rows of a rare category have some, however few they are

For a plain mean of convex losses of a linear model, draws by leverage change the estimate of a gradient over a move by
what is, in the metric, off by `sqrt(d / (share S))` of the move at most, to first order and in the root of the mean
square, for `d` variables and `S` draws, whatever the data: the square is the sum of `D_i (a_i move)^2 / m` times
`leverage_i / (S q_i)`. An outer function that takes curvature away from the metric, as the logarithm of KL does, makes
leverages larger than that, and the chances are then still in proportion to them.

Reference: for leverage, Drineas, Mahoney, Muthukrishnan, "Sampling algorithms for l2 regression and applications"
(SODA 2006).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.errors import SettingError
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Rows
from drobench.solver.communicator import Communicator
from drobench.solver.estimators import Estimates

# Of the draws by the worst-case distribution, which changes on the way to the next snapshot; of those by leverage.
_SHARE, _LEVERAGE_SHARE = 0.5, 0.8


@dataclass(frozen=True)
class WeightedDraws:
    """The chances of all rows, the same on every process."""

    cumulative: Tensor
    """`(m,)`, sums of the chances up to each row, in double precision."""

    def draw(self, oracle: CompositeOracle, size: int) -> Rows:
        """Return so many draws, in which a row that comes several times is looked at once."""
        return oracle.draw_by_chances(self.cumulative, size)


def weighted_draws(
    oracle: CompositeOracle, communicator: Communicator, point: Tensor, estimates: Estimates, rows: Rows
) -> WeightedDraws:
    """Return draws by the worst-case distribution at `point`, where `estimates` were just measured on `rows`, all."""
    outer = oracle.outer_gradient(estimates.inner_value, estimates.shift)
    found = oracle.row_weights(point, rows, outer, estimates.shift)
    return _favouring(found, rows, oracle, communicator, _SHARE)


def leverage_draws(
    oracle: CompositeOracle,
    communicator: Communicator,
    point: Tensor,
    estimates: Estimates,
    rows: Rows,
    factor: Tensor,
) -> WeightedDraws:
    """Return draws by leverage in the metric `factor factor^T`, that of the Hessian at `point`."""
    outer = oracle.outer_gradient(estimates.inner_value, estimates.shift)
    found = oracle.leverages(point, rows, outer, estimates.shift, factor)
    return _favouring(found, rows, oracle, communicator, _LEVERAGE_SHARE)


def _favouring(
    found: Tensor, rows: Rows, oracle: CompositeOracle, communicator: Communicator, share: float
) -> WeightedDraws:
    """Return the draws for the weights of this process's rows; one exchange of `m` numbers tells everybody.

    Weights that are no numbers, or all zero, leave uniform draws.
    """
    weights = torch.zeros(oracle.samples, dtype=torch.float64, device=found.device)
    if rows.samples is not None:
        weights[rows.samples] = found.to(torch.float64)
    (weights,) = communicator.total([weights])
    total = float(weights.sum())
    chances = torch.full_like(weights, 1.0 / oracle.samples)
    if 0.0 < total < torch.inf:
        chances.lerp_(weights / total, share)
    return WeightedDraws(chances.cumsum(0))


def check_weighted(oracle: CompositeOracle, solver: str) -> None:
    """Refuse weighted draws where rows have no weights."""
    if not oracle.weighs_rows:
        raise SettingError(
            f"{solver}: solver.sampling=weighted needs the weight of every sample at a snapshot, which this form does "
            "not have: it averages over constraints or groups. Use solver.sampling=uniform."
        )
