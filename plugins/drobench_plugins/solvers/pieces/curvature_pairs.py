"""What a limited-memory quasi-Newton method remembers: the last moves, and how much they changed the gradient.

With moves `s` and changes `y` as rows of `S` and `Y`, oldest first, the BFGS formula from `B_0 = sigma I` on is

    H = B^-1 = I / sigma + [S^T  Y^T / sigma] [[R^-T (D + Y Y^T / sigma) R^-1, -R^-T], [-R^-1, 0]] [S; Y / sigma]
    B        = sigma I - W^T M^-1 W,    W = [sigma S; Y],    M = [[sigma S S^T, L], [L^T, -D]]

where `S Y^T = L + R`, `L` strictly lower and `R` upper triangular, and `D` is the diagonal: a few products with small
matrices instead of a loop over the pairs. Of `R` the inverse is kept: a new pair adds a column to it, and without its
first row and column it is the inverse for the pairs without the oldest. Rows of pairs that are not there are zero.

Reference: Byrd, Nocedal, Schnabel, "Representations of quasi-Newton matrices and their use in limited memory methods"
(Mathematical Programming, 1994), theorems 2.2 and 2.3. Deviation: pairs are scaled so that `<s, y> = 1`, of which the
formulas are independent; then `D` is the identity and the triangular matrix better conditioned.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class CurvaturePairs:
    """The last pairs, the newest in the last row."""

    moves: Tensor
    """`S`, `(memory, d)`."""
    changes: Tensor
    """`Y`, `(memory, d)`."""
    inverse: Tensor
    """`R^-1`, `(memory, memory)`."""
    gram: Tensor
    """`Y Y^T`, `(memory, memory)`."""
    count: int
    """Pairs so far, at most `memory`."""
    scale: float
    """`sigma`, the curvature along directions that no pair knows."""

    def extended(self, move: Tensor, change: Tensor, least_cosine: float) -> "CurvaturePairs":
        """Return the pairs with one more in place of the oldest; the same ones where it shows too little curvature."""
        product, size, growth = torch.stack([move.dot(change), move.dot(move), change.dot(change)]).tolist()
        # The comparison fails for what is no number; products of tiny moves may be zero.
        if not (0.0 < product < math.inf and growth < math.inf and product * product > least_cosine**2 * size * growth):
            return self
        factor = 1.0 / math.sqrt(product)
        change = factor * change
        moves = torch.cat([self.moves[1:], factor * move[None]])
        changes = torch.cat([self.changes[1:], change[None]])
        inverse, gram = pad(self.inverse[1:, 1:], (0, 1, 0, 1)), pad(self.gram[1:, 1:], (0, 1, 0, 1))
        gram[-1] = gram[:, -1] = changes @ change
        inverse[:, -1] = inverse @ (moves @ change).neg_()
        inverse[-1, -1] = 1.0
        return CurvaturePairs(moves, changes, inverse, gram, min(self.count + 1, moves.shape[0]), growth / product)

    def solve(self, vector: Tensor) -> Tensor:
        """Return `H vector`."""
        if not self.count:
            return vector / self.scale
        along = self.inverse @ (self.moves @ vector)
        rest = torch.addmv(self.changes @ vector, self.gram, along, alpha=-1.0).div_(-self.scale).add_(along)
        known = torch.addmv(vector, self.changes.T, along, alpha=-1.0).div_(self.scale)
        return torch.addmv(known, self.moves.T, self.inverse.T @ rest)

    def product(self) -> Callable[[Tensor], Tensor]:
        """Return the map from a vector to `B` times that vector."""
        scale = self.scale
        if not self.count:
            return lambda vector: scale * vector
        moves, changes = self.moves[-self.count :], self.changes[-self.count :]
        lower = torch.tril(moves @ changes.T, -1)
        identity = torch.eye(self.count, dtype=lower.dtype, device=lower.device)
        middle = torch.cat([torch.cat([scale * (moves @ moves.T), lower], 1), torch.cat([lower.T, -identity], 1)])
        outer = torch.cat([scale * moves, changes])
        solved = torch.linalg.solve(middle, outer)
        return lambda vector: torch.addmv(scale * vector, outer.T, solved @ vector, alpha=-1.0)


def no_pairs(like: Tensor, memory: int, scale: float) -> CurvaturePairs:
    """Return an empty memory; `scale` is the curvature to begin with."""
    empty, small = like.new_zeros(memory, like.numel()), like.new_zeros(memory, memory)
    return CurvaturePairs(empty, empty, small, small, 0, scale)
