"""Learning to rank, with the same pairwise error across groups in every query.

For each query, two rates: how often a relevant document of group 0 is ranked below an irrelevant one of group 1, and
the other way round. Their difference is held to at most `epsilon` in each direction: two constraints a query. The
objective is the mean over queries of the mean logistic loss of the query's pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.data.dataset import DataError, Dataset, Split
from drobench.errors import require_non_negative, require_one_of
from drobench.objective.forms import Constrained, Constraints, FiniteSum
from drobench.objective.losses import LogisticLoss, Losses, Margin, Pullback
from drobench.objective.predictor import Model, build_predictor
from drobench.objective.rate_constraints import SURROGATES, zero_one
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Index
from drobench.problem.metrics import Metric, SplitScore
from drobench.problem.problem import Problem
from drobench.registry import ProblemEntry
from drobench_plugins.problems.query_pairs import Drawn, QueryPairs

_LOGISTIC = LogisticLoss()
_CELL_01, _CELL_10 = 1, 2
_NDCG_DEPTH = 10


@dataclass
class RankingFairnessConfig:
    """Settings of the ranking problem."""

    epsilon: float = 0.25
    surrogate: str = "bce"
    """What stands for the 0-1 loss of a pair in the constraints: `bce` or `hinge`."""
    l2: float = 0.001
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        require_non_negative(self, "epsilon", "l2", "tolerance")
        require_one_of(self, "surrogate", tuple(SURROGATES))


class PairwiseLosses(Losses):
    """One loss per query: the mean logistic loss of its pairs."""

    def __init__(self, scores: Losses, pairs: QueryPairs) -> None:
        self.scores = scores
        self.pairs = pairs
        self.samples = pairs.queries
        self.dimension = scores.dimension
        self.convex = scores.convex

    def origin(self) -> Tensor:
        return self.scores.origin()

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        drawn, margins, pull = pair_margins(self.scores, self.pairs, points, index)
        values, slopes = _LOGISTIC.of_margin(margins)
        slopes = slopes * drawn.shares(torch.ones_like(slopes[0]))

        def pullback(cotangents: Tensor) -> Tensor:
            return pull(cotangents[:, :, drawn.query] * slopes[:, None])

        return drawn.means(values), pullback


class RankingConstraints(Constraints):
    """Constraint `2 q`: rate 01 exceeds rate 10 by at most `epsilon` in query `q`; `2 q + 1`: the other way round."""

    def __init__(self, scores: Losses, pairs: QueryPairs, epsilon: float, surrogate: str, features: Tensor) -> None:
        self.scores = scores
        self.pairs = pairs
        self.epsilon = epsilon
        self.surrogate = SURROGATES[surrogate]
        self.convex = self.surrogate.convex and scores.convex
        self.count = 2 * pairs.queries
        self.dimension = scores.dimension
        sides = torch.eye(2, dtype=features.dtype, device=features.device).repeat(pairs.queries, 1)
        self.features = torch.cat([features.repeat_interleave(2, dim=0), sides], dim=1)

    def surrogates(self, points: Tensor, index: Index) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        queries, chosen = self._queries(points, index)
        drawn, margins, pull = pair_margins(self.scores, self.pairs, points, queries)
        upper, upper_slope = self.surrogate.upper(margins)
        lower, lower_slope = self.surrogate.lower(margins)
        is_01, is_10 = _cells(drawn, margins.dtype)
        share_01, share_10 = drawn.shares(is_01), drawn.shares(is_10)
        sides = [
            drawn.means(upper, is_01) - drawn.means(lower, is_10),
            drawn.means(upper, is_10) - drawn.means(lower, is_01),
        ]
        slopes = [upper_slope * share_01 - lower_slope * share_10, upper_slope * share_10 - lower_slope * share_01]

        def pullback(cotangents: Tensor) -> Tensor:
            both = cotangents.new_zeros(*cotangents.shape[:2], 2 * drawn.queries)
            both.index_add_(2, chosen, cotangents)
            by_pair = sum(both[:, :, side::2][:, :, drawn.query] * slope[:, None] for side, slope in enumerate(slopes))
            assert isinstance(by_pair, Tensor)
            return pull(by_pair)

        return self._select(sides, chosen), pullback

    def violations(self, points: Tensor, index: Index) -> Tensor:
        queries, chosen = self._queries(points, index)
        drawn, margins, _ = pair_margins(self.scores, self.pairs, points, queries)
        rate_01, rate_10 = (drawn.means(zero_one(margins), cell) for cell in _cells(drawn, margins.dtype))
        return self._select([rate_01 - rate_10, rate_10 - rate_01], chosen)

    def _queries(self, points: Tensor, index: Index) -> tuple[Index, Tensor]:
        """Return the queries, each once, and for every constraint its position among their pairs of constraints."""
        numbers = torch.arange(self.count, device=points.device)[index]
        if isinstance(index, slice) and index == slice(None):
            return index, numbers
        queries, position = torch.unique(numbers // 2, return_inverse=True)
        return queries, 2 * position + numbers % 2

    def _select(self, sides: list[Tensor], chosen: Tensor) -> Tensor:
        return torch.stack(sides, dim=-1).flatten(start_dim=1)[:, chosen] - self.epsilon


def _cells(drawn: Drawn, dtype: torch.dtype) -> list[Tensor]:
    """Return which pairs are of the two kinds across groups."""
    return [(drawn.cell == cell).to(dtype) for cell in (_CELL_01, _CELL_10)]


def pair_margins(scores: Losses, pairs: QueryPairs, points: Tensor, index: Index) -> tuple[Drawn, Tensor, Pullback]:
    """Return the pairs of the queries, their margins `s(better) - s(worse)` and the pullback of these."""
    whole = isinstance(index, slice) and index == slice(None)
    queries = index if isinstance(index, Tensor) else torch.arange(pairs.queries, device=points.device)[index]
    drawn = pairs.everything if whole else pairs.draw(queries)
    values, pull = scores.linearize(points, drawn.documents)
    documents = values.shape[1]

    def pullback(cotangents: Tensor) -> Tensor:
        by_document = cotangents.new_zeros(*cotangents.shape[:2], documents)
        by_document.index_add_(2, drawn.better, cotangents).index_add_(2, drawn.worse, -cotangents)
        return pull(by_document)

    return drawn, values[:, drawn.better] - values[:, drawn.worse], pullback


class RankingFairness(Problem):
    """See the module's text."""

    form: Constrained
    metrics = (
        Metric("pooled_error", unit="share"),
        Metric("mean_violation", unit="share"),
        Metric("violated_share", unit="share"),
        Metric("ndcg_10", better="more", unit="share of the best"),
    )

    def __init__(self, config: RankingFairnessConfig, dataset: Dataset, model: Model) -> None:
        self.config = config
        self.tolerance = config.tolerance
        self.predictor = build_predictor(model, dataset.input_shape)
        self.splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
        self.pairs = {
            name: None if split is None else _checked_pairs(split, name) for name, split in self.splits.items()
        }
        train, pairs = dataset.train, self.pairs["train"]
        assert pairs is not None
        scores = self.predictor.losses(train.features, torch.ones_like(train.features[:, 0]), Margin())
        constraints = RankingConstraints(scores, pairs, config.epsilon, config.surrogate, _query_means(train, pairs))
        self.form = Constrained(FiniteSum(PairwiseLosses(scores, pairs), ElasticNet(0.0, config.l2)), constraints)

    @torch.no_grad()
    def score(self, point: Tensor, split: str) -> SplitScore | None:
        rows, pairs = self.splits[split], self.pairs[split]
        if rows is None or pairs is None:
            return None
        scores = self.predictor.scores(point, rows.features)
        drawn = pairs.everything
        errors = zero_one(scores[drawn.better] - scores[drawn.worse])[None]
        by_query = drawn.means(errors)[0]
        rate_01, rate_10 = (drawn.means(errors, cell)[0] for cell in _cells(drawn, errors.dtype))
        violations = (rate_01 - rate_10).abs() - self.config.epsilon
        p95, p99 = torch.quantile(violations, violations.new_tensor([0.95, 0.99])).tolist()
        extra = {
            "pooled_error": float(errors.mean()),
            "mean_violation": float(violations.mean()),
            "violated_share": float((violations > 0).double().mean()),
        }
        if rows.relevance is not None:
            extra["ndcg_10"] = float(ndcg(scores, rows.relevance, pairs.first_document, _NDCG_DEPTH).mean())
        return SplitScore(float(by_query.mean()), float(violations.max()), p95, p99, extra)


def ndcg(scores: Tensor, relevance: Tensor, first: Tensor, depth: int) -> Tensor:
    """Return nDCG at `depth` of every query, gains `2^relevance - 1`; scores that are not numbers rank last."""
    sizes = first[1:] - first[:-1]
    query = torch.repeat_interleave(torch.arange(sizes.numel(), device=scores.device), sizes)
    gains = torch.exp2(relevance.double()) - 1.0

    def discounted(order_by: Tensor) -> Tensor:
        # Stable sorts, by value and then by query: the order within each query.
        order = torch.argsort(order_by, descending=True, stable=True)
        order = order[torch.argsort(query[order], stable=True)]
        rank = torch.arange(order.numel(), device=scores.device) - first[:-1][query[order]]
        terms = torch.where(rank < depth, gains[order] / torch.log2(rank.double() + 2.0), 0.0)
        return torch.zeros(sizes.numel(), dtype=torch.float64, device=scores.device).index_add_(0, query[order], terms)

    ranked = torch.where(scores.isfinite(), scores.double(), -torch.inf)
    best = discounted(relevance.double())
    # Where nothing is relevant every order is perfect.
    return torch.where(best > 0, discounted(ranked) / best.clamp(min=1e-300), 1.0)


def _checked_pairs(split: Split, name: str) -> QueryPairs:
    pairs = QueryPairs(split)
    for cell, meaning in ((_CELL_01, "group 0 above one of group 1"), (_CELL_10, "group 1 above one of group 0")):
        counts = torch.bincount(pairs.query[pairs.cell == cell], minlength=pairs.queries)
        if bool((counts == 0).any()):
            raise DataError(
                f"ranking_fairness: every query needs a pair of a relevant document of {meaning}; query "
                f"{int(counts.argmin())} of the {name} rows, counted from 0, has none. Filter such queries out."
            )
    return pairs


def _query_means(split: Split, pairs: QueryPairs) -> Tensor:
    """Return the mean features of every query: what a multiplier model sees of its constraints."""
    assert split.queries is not None
    totals = split.features.new_zeros(pairs.queries, split.features.shape[1])
    totals.index_add_(0, split.queries, split.features)
    return totals / (pairs.first_document[1:] - pairs.first_document[:-1])[:, None]


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    return [
        ProblemEntry(
            name="ranking_fairness",
            summary="Learning to rank; in every query the pairwise errors across two groups stay together.",
            reference="Narasimhan, Cotter, Gupta, Wang (AAAI 2020); Narasimhan et al. (NeurIPS 2020)",
            config=RankingFairnessConfig,
            factory=RankingFairness,
            needs=frozenset({"binary_labels", "queries", "groups"}),
        )
    ]
