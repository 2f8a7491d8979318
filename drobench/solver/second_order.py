"""The Hessian of the smooth part `Phi = mean h_i + f(mean g_i)`, pooled over processes.

    Hessian = mean of the Hessians of h_i + <f'(y), g_i>  +  J^T f''(y) J,     y = mean g,  J = mean g'

Value and slopes come first, by `refresh`: what is measured here belongs to the same point and the same rows, and so to
the same sweep. Products with vectors ask for a sweep each.
"""

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Rows
from drobench.solver.communicator import Communicator
from drobench.solver.estimators import Estimates


def hessian(
    oracle: CompositeOracle, communicator: Communicator, point: Tensor, estimates: Estimates, rows: Rows
) -> Tensor:
    """Return the Hessian at `point`, `(d, d)`, given the `estimates` that were measured there on `rows`."""
    weights = _outer_weights(oracle, estimates)
    (matrix,) = communicator.total([oracle.hessian(point, rows, weights, estimates.shift)])
    if oracle.outputs:
        jacobian = estimates.inner_jacobian
        matrix = matrix + jacobian.T @ oracle.outer_hessian(estimates.inner_value, estimates.shift) @ jacobian
    return 0.5 * (matrix + matrix.T)


def hessian_product(
    oracle: CompositeOracle,
    communicator: Communicator,
    point: Tensor,
    estimates: Estimates,
    rows: Rows,
    vector: Tensor,
) -> Tensor:
    """Return the Hessian at `point` times a vector."""
    weights = _outer_weights(oracle, estimates)
    (product,) = communicator.total([oracle.hessian_product(point, rows, weights, estimates.shift, vector)])
    if oracle.outputs:
        jacobian = estimates.inner_jacobian
        bent = oracle.outer_hessian(estimates.inner_value, estimates.shift) @ (jacobian @ vector)
        product = torch.addmv(product, jacobian.T, bent)
    return product


def check_products(oracle: CompositeOracle, solver: str, largest_matrix: int, instead: str) -> None:
    """Refuse what products with vectors cannot do, for a method that has no matrix here; `instead` names another."""
    why = f"{oracle.dimension} variables, above solver.largest_matrix={largest_matrix}"
    if not oracle.has_hessian:
        why = "a model without a matrix of second derivatives"
    if not oracle.has_hessian_products:
        raise DrobenchError(f"{solver}: {why} and no products with vectors either. Use solver={instead}.")
    if not oracle.regularizer_is_smooth:
        raise DrobenchError(
            f"{solver}: found {why}, so that steps come from products with vectors, and a regularizer with kinks or "
            f"bounds, which need the matrix. Raise solver.largest_matrix, or use solver={instead}."
        )


def _outer_weights(oracle: CompositeOracle, estimates: Estimates) -> Tensor:
    return oracle.outer_gradient(estimates.inner_value, estimates.shift)
