"""A sketch of a symmetric matrix from few products with vectors, as a metric for steps.

With an orthonormal random `Q` of `rank` columns and `Y = H Q`, the Nystrom approximation is `Y (Q^T Y)^-1 Y^T`. It is
kept as `U diag(values) U^T`; along what it does not know, the metric has the smallest of its values:

    P = U diag(values) U^T + values_min (I - U U^T) + ridge I

Where `H` is not positive the sizes of the eigenvalues of `Q^T Y` are taken, so that `P` always is.

Reference: Frangella, Tropp, Udell, "Randomized Nystrom preconditioning" (SIAM Journal on Matrix Analysis, 2023).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Of the largest value: what is smaller is rounding.
_NOTHING = {torch.float64: 1e-12, torch.float32: 1e-6}


@dataclass(frozen=True)
class Sketch:
    """The metric `P`."""

    vectors: Tensor
    """`U`, `(d, rank)`, orthonormal."""
    values: Tensor
    """`(rank,)`, above zero."""
    ridge: float

    def solve(self, vector: Tensor) -> Tensor:
        """Return `P^-1 vector`."""
        rest = 1.0 / (self.values[-1] + self.ridge)
        along = self.vectors.T @ vector
        known = along * ((self.values + self.ridge).reciprocal() - rest)
        return torch.addmv(rest * vector, self.vectors, known)


def sketch(
    product: Callable[[Tensor], Tensor],
    like: Tensor,
    rank: int,
    generator: np.random.Generator,
    ridge: float,
) -> Sketch:
    """Return the sketch of a matrix that is known by its products with vectors, `rank` of which are asked for.

    Args:
        product: The matrix times a vector.
        like: A vector of the right size, precision and device.
        rank: Number of products.
        generator: Of the random directions; the same on every process.
        ridge: What is added to the diagonal.
    """
    rank = min(rank, like.numel())
    noise = torch.from_numpy(generator.standard_normal((like.numel(), rank))).to(like)
    directions: Tensor = torch.linalg.qr(noise)[0]
    products = torch.stack([product(direction) for direction in directions.T], dim=1)
    if not bool(products.isfinite().all()):
        return Sketch(directions, torch.ones_like(directions[0]), ridge)
    core = directions.T @ products
    sizes, rotation = torch.linalg.eigh(0.5 * (core + core.T))
    sizes = sizes.abs()
    nothing = _NOTHING[like.dtype] * max(float(sizes.max()), torch.finfo(like.dtype).tiny)
    roots = torch.where(sizes > nothing, sizes, torch.inf).rsqrt()
    vectors, values, _ = torch.linalg.svd((products @ rotation) * roots, full_matrices=False)
    squares = values.square()
    largest = float(squares[0])
    if not largest > 0.0:
        return Sketch(directions, torch.ones_like(squares), ridge)
    return Sketch(vectors, squares.clamp(min=_NOTHING[like.dtype] * largest), ridge)
