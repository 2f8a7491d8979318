"""Pairs of a relevant and an irrelevant document of the same query, and means over them, query by query.

Everything is laid out flat: the pairs of a query stand together, and a draw of queries becomes one gather of pairs, so
that nothing here loops over queries. The position of a pair among four cells is `2 (group of the relevant document) +
(group of the irrelevant one)`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.data.dataset import DataError, Split
from drobench.objective.sampling import Index


@dataclass(frozen=True, eq=False)
class Drawn:
    """The pairs of some queries: documents by their position among the documents drawn with them."""

    documents: Index
    better: Tensor
    worse: Tensor
    query: Tensor
    """Position of each pair's query in the draw."""
    cell: Tensor
    queries: int

    def means(self, values: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the mean of `values` `(k, pairs)` over the (chosen) pairs of each query, `(k, queries)`."""
        totals = values.new_zeros(values.shape[0], self.queries)
        totals.index_add_(1, self.query, values if chosen is None else values * chosen)
        return totals / self.counts(chosen).to(values.dtype)

    def shares(self, chosen: Tensor) -> Tensor:
        """Return the weight of each pair in the mean over the chosen pairs of its query."""
        return chosen / self.counts(chosen).to(chosen.dtype)[self.query]

    def counts(self, chosen: Tensor | None = None) -> Tensor:
        """Return how many (chosen) pairs each query has, at least one."""
        weights = None if chosen is None else chosen.double()
        return torch.bincount(self.query, weights=weights, minlength=self.queries).clamp(min=1).double()


class QueryPairs:
    """All pairs of one split."""

    def __init__(self, split: Split) -> None:
        assert split.queries is not None
        if bool((split.queries[1:] < split.queries[:-1]).any()):
            raise DataError("The rows of queries must stand in the order of their numbers 0, 1, ...; sort or renumber.")
        self.queries = int(split.queries.max()) + 1
        sizes = torch.bincount(split.queries, minlength=self.queries)
        self.first_document = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        positive, negative = split.labels == 1, split.labels == 0
        better, worse = _cross(split.queries, positive, negative, self.queries)
        self.better, self.worse = better, worse
        self.query = split.queries[better]
        groups = torch.zeros_like(split.labels) if split.groups is None else split.groups
        self.cell = 2 * groups[better] + groups[worse]
        counts = torch.bincount(self.query, minlength=self.queries)
        self.first_pair = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        self.everything = Drawn(slice(None), better, worse, self.query, self.cell, self.queries)

    def draw(self, queries: Tensor) -> Drawn:
        """Return the pairs of these queries, in their order; a query may come several times."""
        documents, _ = _ranges(self.first_document, queries)
        pairs, query = _ranges(self.first_pair, queries)
        # Where the documents of each drawn query begin, among all queries and in this draw.
        sizes = self.first_document[queries + 1] - self.first_document[queries]
        offset = (sizes.cumsum(0) - sizes - self.first_document[queries])[query]
        return Drawn(
            documents, self.better[pairs] + offset, self.worse[pairs] + offset, query, self.cell[pairs], queries.numel()
        )


def _ranges(first: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the concatenated ranges `first[c] .. first[c + 1] - 1` of the chosen, and which of them each is from."""
    sizes = first[chosen + 1] - first[chosen]
    which = torch.repeat_interleave(torch.arange(chosen.numel(), device=chosen.device), sizes)
    begin = sizes.cumsum(0) - sizes
    return first[chosen][which] + torch.arange(which.numel(), device=chosen.device) - begin[which], which


def _cross(queries: Tensor, positive: Tensor, negative: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return, query by query, every positive row paired with every negative row of the same query."""
    goods, bads = torch.nonzero(positive)[:, 0], torch.nonzero(negative)[:, 0]
    bad_counts = torch.bincount(queries[bads], minlength=count)
    first_bad = torch.cat([bad_counts.new_zeros(1), bad_counts.cumsum(0)])
    partners, which = _ranges(first_bad, queries[goods])
    return goods[which], bads[partners]
