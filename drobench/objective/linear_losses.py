"""Losses of linear scores, with derivatives in closed form."""

from abc import abstractmethod
from copy import copy

import torch
from torch import Tensor
from torch.nn.functional import linear

from drobench.objective.loss_contract import Losses, Pullback, PullbackDifference
from drobench.objective.sampling import Index
from drobench.objective.score_losses import MarginLoss, ScoreLoss

_GRAM_ROWS = 1024


class RememberedMargins:
    """The margins of all rows at the last three points.

    Where an objective and its constraints look at all rows, each asks for the margins at `x_j` and `x_{j-1}`: of these
    four products three have been made before.
    """

    def __init__(self) -> None:
        self.known: list[tuple[Tensor, Tensor]] = []
        self.last_asked: Tensor | None = None
        self.last_version = -1
        self.last_margins: Tensor | None = None

    def at(self, points: Tensor, rows: Tensor) -> Tensor:
        """Return the margins `(k, rows)` at `points`."""
        # The very same tensor, unchanged since: objective and constraints are asked one after the other.
        if points is not self.last_asked or points._version != self.last_version or self.last_margins is None:
            self.last_margins = torch.stack([self._one(point, rows) for point in points])
            self.last_asked, self.last_version = points, points._version
        return self.last_margins

    def _one(self, point: Tensor, rows: Tensor) -> Tensor:
        for seen, margins in self.known:
            if torch.equal(seen, point):
                return margins
        # One product a point, whether remembered or not: what is computed again has the same bits.
        margins = torch.mv(rows, point)
        self.known = [(point.clone(), margins), *self.known[:2]]
        return margins


class LinearLosses(Losses):
    """Losses of one linear product `<row, x>` for each row, with closed-form derivatives.

    A step is a gather and two matrix products. A subclass says what the loss of a product is.
    """

    loss: ScoreLoss

    def __init__(self, rows: Tensor, convex: bool) -> None:
        self.rows = rows
        self.remembered = RememberedMargins()
        # The summand that `addmm` wants and, with beta = 0, does not look at.
        self.ignored = rows.new_zeros(rows.shape[1])
        self.samples, self.dimension = rows.shape
        self.convex = convex

    @abstractmethod
    def of_products(self, products: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        """Return losses and their derivatives by the products `(..., rows)` of the rows `index`."""

    @abstractmethod
    def bend_of_products(self, products: Tensor, index: Index) -> Tensor:
        """Return the second derivatives by the products `(rows,)` of the rows `index`."""

    def origin(self) -> Tensor:
        return self.rows.new_zeros(self.dimension)

    def _products(self, points: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        """Return the rows and their products with the points."""
        if isinstance(index, slice):
            rows = self.rows[index]
            whole = rows.shape[0] == self.samples
            return rows, self.remembered.at(points, rows) if whole else linear(points, rows)
        rows = self.rows.index_select(0, index)
        return rows, linear(points, rows)

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        rows, products = self._products(points, index)
        values, slopes = self.of_products(products, index)

        def pullback(cotangents: Tensor) -> Tensor:
            return (cotangents * slopes[:, None]) @ rows

        return values, pullback

    def linearize_difference(self, points: Tensor, index: Index) -> tuple[Tensor, PullbackDifference]:
        rows, products = self._products(points, index)
        values, slopes = self.of_products(products, index)

        def difference(cotangents: Tensor, factor: float) -> Tensor:
            # The rows are the same at both points: one product with the difference of the weights.
            here, there = (cotangents * slopes[:, None]).unbind()
            return torch.addmm(self.ignored, here.sub_(there), rows, beta=0, alpha=factor)

        return values, difference

    def row_gradients(self, point: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        rows, products = self._products(point[None], index)
        values, slopes = self.of_products(products[0], index)
        return values, slopes[:, None] * rows

    def mean_gradient_difference(self, points: Tensor, index: Index) -> Tensor:
        rows, products = self._products(points, index)
        here, there = self.of_products(products, index)[1].unbind()
        return torch.addmv(self.ignored, rows.T, here - there, beta=0, alpha=1.0 / max(rows.shape[0], 1))

    def hessian(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> Tensor:
        rows, weights = self._row_weights(point, index, outer, curve)
        total = point.new_zeros(self.dimension, self.dimension)
        # In pieces: what is made of the rows stays in the processor's cache, and is never as large as the data.
        for some, weight in zip(torch.split(rows, _GRAM_ROWS), torch.split(weights, _GRAM_ROWS), strict=True):
            total.addmm_(some.T, some * weight[:, None])
        return total

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        rows, weights = self._row_weights(point, index, outer, curve)
        return rows.T @ (weights * (rows @ vector))

    def leverages(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, factor: Tensor) -> Tensor:
        rows, weights = self._row_weights(point, index, outer.abs(), curve.abs())
        pieces = torch.split(rows, _GRAM_ROWS)
        sizes = [torch.linalg.solve_triangular(factor, some.T, upper=False).square_().sum(dim=0) for some in pieces]
        return torch.cat(sizes).mul_(weights.abs())

    def _row_weights(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows and what each row's outer product with itself is multiplied by."""
        rows, products = self._products(point[None], index)
        _, slopes = self.of_products(products[0], index)
        return rows, outer * slopes.square() + curve * self.bend_of_products(products[0], index)


class LinearMarginLosses(LinearLosses):
    """Margin losses of a linear score: the signs of the labels are folded into the rows once."""

    loss: MarginLoss

    def __init__(self, rows: Tensor, signs: Tensor, loss: MarginLoss) -> None:
        super().__init__(rows * signs[:, None], loss.convex)
        self.loss = loss

    @property
    def signed_rows(self) -> Tensor:
        """The rows, each times its label."""
        return self.rows

    def with_loss(self, loss: MarginLoss) -> "LinearMarginLosses":
        """Return another loss of the same margins, without a copy of the rows."""
        other = copy(self)
        other.loss, other.convex = loss, loss.convex
        return other

    def of_products(self, products: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        return self.loss.of_margin(products)

    def bend_of_products(self, products: Tensor, index: Index) -> Tensor:
        return self.loss.bend(products)


class LinearTargetLosses(LinearLosses):
    """Losses of a linear score and a target, such as those of regression."""

    def __init__(self, rows: Tensor, targets: Tensor, loss: ScoreLoss) -> None:
        super().__init__(rows, loss.convex)
        self.targets = targets
        self.loss = loss

    def of_products(self, products: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        return self.loss.value_and_slope(products, self.targets[index])

    def bend_of_products(self, products: Tensor, index: Index) -> Tensor:
        return self.loss.score_bend(products, self.targets[index])


class LinearScoreLosses(Losses):
    """Losses of several linear scores per row, one block of parameters per class, in closed form."""

    def __init__(self, rows: Tensor, classes: int, targets: Tensor, loss: ScoreLoss) -> None:
        self.rows = rows
        self.classes = classes
        self.targets = targets
        self.loss = loss
        self.samples = rows.shape[0]
        self.dimension = classes * rows.shape[1]
        self.convex = loss.convex

    def origin(self) -> Tensor:
        return self.rows.new_zeros(self.dimension)

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        rows = self.rows[index]
        matrices = points.reshape(points.shape[0], self.classes, -1)
        values, slopes = self.loss.value_and_slope(rows @ matrices.mT, self.targets[index])

        def pullback(cotangents: Tensor) -> Tensor:
            weighted = cotangents[..., None] * slopes[:, None]
            return (weighted.mT @ rows).flatten(start_dim=2)

        return values, pullback

    def hessian(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> Tensor:
        rows, scores, targets = self._scores(point, index)
        total = point.new_zeros(self.classes, rows.shape[1], self.classes, rows.shape[1])
        for some in torch.split(torch.arange(rows.shape[0], device=rows.device), _GRAM_ROWS):
            weights = self._pair_weights(scores[some], targets[some], outer[some], curve[some])
            piece = rows[some]
            for first in range(self.classes):
                # The pairs of this class with itself and the later ones; the others follow by symmetry.
                later = (weights[:, first, first:, None] * piece[:, None]).flatten(start_dim=1)
                total[first, :, first:] += (piece.T @ later).view(rows.shape[1], -1, rows.shape[1])
        matrix = total.view(self.dimension, self.dimension)
        return matrix.triu() + matrix.triu(1).T

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        rows, scores, targets = self._scores(point, index)
        weights = self._pair_weights(scores, targets, outer, curve)
        pushed = rows @ vector.view(self.classes, -1).T
        weighted = (weights @ pushed[..., None])[..., 0]
        return (weighted.T @ rows).flatten()

    def _scores(self, point: Tensor, index: Index) -> tuple[Tensor, Tensor, Tensor]:
        rows = self.rows[index]
        return rows, rows @ point.view(self.classes, -1).T, self.targets[index]

    def _pair_weights(self, scores: Tensor, targets: Tensor, outer: Tensor, curve: Tensor) -> Tensor:
        """Return, for every row and pair of classes, what the row's outer product with itself is multiplied by."""
        _, slopes = self.loss.value_and_slope(scores, targets)
        squares = slopes[:, :, None] * slopes[:, None, :]
        return outer[:, None, None] * squares + curve[:, None, None] * self.loss.bends(scores, targets)
