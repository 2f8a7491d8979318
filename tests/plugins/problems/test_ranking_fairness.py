"""Ranking with equal errors across groups: pairs, losses, constraints and scores, against loops over documents."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, DatasetConfig
from drobench.errors import SettingError
from drobench.objective.predictor import ModelConfig
from drobench_plugins.problems.query_pairs import QueryPairs
from drobench_plugins.problems.ranking_fairness import RankingFairness, RankingFairnessConfig, ndcg

LINEAR, NETWORK = ModelConfig(), ModelConfig("mlp", hidden=[4])
MODELS = pytest.mark.parametrize("model", [LINEAR, NETWORK], ids=["linear", "network"])
QUERIES = 6
INDICES = {
    "all": slice(None),
    "part": slice(1, 4),
    "unordered": torch.tensor([4, 0, 2]),
    "repeated": torch.tensor([3, 3, 0, 5, 3]),
}


def raw(queries=QUERIES, seed=0):
    """Return features, graded relevance, groups and queries; every query has documents of every kind."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(5, 9, queries)
    numbers = np.repeat(np.arange(queries), sizes)
    features = generator.standard_normal((numbers.size, 3))
    relevance, groups = generator.integers(0, 5, numbers.size), generator.integers(0, 2, numbers.size)
    for query in range(queries):
        first = int(np.flatnonzero(numbers == query)[0])
        order = first + generator.permutation(sizes[query])[:4]
        relevance[order], groups[order] = [0, 3, 1, 4], [0, 0, 1, 1]
    return features, relevance, groups, numbers


def dataset_of(seed=0, graded=True, **changes):
    features, relevance, groups, numbers = raw(seed=seed)
    columns = {"groups": groups, "queries": numbers, "relevance": relevance, **changes}
    if not graded:
        del columns["relevance"]
    rows = np.arange(numbers.size)
    parts = [rows, rows[:0], rows]
    labels = (relevance > 1).astype(int)
    return build_dataset("ranking", features, labels, DatasetConfig(), columns=columns, parts=parts)


def problem_of(model=LINEAR, dataset=None, **settings):
    return RankingFairness(RankingFairnessConfig(**settings), dataset or dataset_of(), model)


def numbers_of(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def looped_pairs(split, query):
    """Return (relevant, irrelevant) row numbers of a query."""
    rows = [row for row in range(split.rows) if int(split.queries[row]) == query]
    good = [row for row in rows if int(split.labels[row]) == 1]
    bad = [row for row in rows if int(split.labels[row]) == 0]
    return list(product(good, bad))


def groups_of(split, pair):
    return int(split.groups[pair[0]]), int(split.groups[pair[1]])


def looped_losses(scores, split, query):
    pairs = looped_pairs(split, query)
    return sum(torch.log1p(torch.exp(scores[bad] - scores[good])) for good, bad in pairs) / len(pairs)


def looped_constraints(scores, split, query, kind, epsilon):
    """Return both constraints of a query: rate 01 over rate 10, and the other way round."""

    def mean(cell, stands_for):
        margins = [scores[a] - scores[b] for a, b in looped_pairs(split, query) if groups_of(split, (a, b)) == cell]
        return sum(stands_for(margin) for margin in margins) / len(margins)

    upper, lower = {
        "bce": (lambda t: torch.log1p(torch.exp(-t)),) * 2,
        "hinge": (lambda t: (1 - t).relu(), lambda t: 1 - (1 + t).relu()),
        "exact": (lambda t: 0.5 * (t == 0).double() + (t < 0).double(),) * 2,
    }[kind]
    return [
        mean((0, 1), upper) - mean((1, 0), lower) - epsilon,
        mean((1, 0), upper) - mean((0, 1), lower) - epsilon,
    ]


def by_constraint(scores, split, kind, epsilon):
    both = [looped_constraints(scores, split, query, kind, epsilon) for query in range(QUERIES)]
    return torch.stack([torch.as_tensor(value, dtype=torch.float64) for pair in both for value in pair])


class TestPairs:
    def test_all_pairs_are_those_of_the_loops(self):
        split = dataset_of().train
        everything = QueryPairs(split).everything
        found = list(zip(everything.query.tolist(), everything.better.tolist(), everything.worse.tolist(), strict=True))
        expected = [(query, *pair) for query in range(QUERIES) for pair in looped_pairs(split, query)]
        assert found == expected
        cells = [2 * first + second for first, second in (groups_of(split, pair[1:]) for pair in expected)]
        assert everything.cell.tolist() == cells
        assert everything.queries == QUERIES

    @pytest.mark.parametrize("queries", [[0, 1, 2], [4, 0, 2], [3, 3, 0, 5, 3], [5]], ids=str)
    def test_a_draw_has_the_pairs_of_its_queries_in_their_order(self, queries):
        split = dataset_of().train
        drawn = QueryPairs(split).draw(torch.tensor(queries))
        documents = [row for query in queries for row in range(split.rows) if int(split.queries[row]) == query]
        assert drawn.documents.tolist() == documents
        pairs = zip(drawn.query.tolist(), drawn.better.tolist(), drawn.worse.tolist(), strict=True)
        found = [(position, documents[better], documents[worse]) for position, better, worse in pairs]
        assert found == [(place, *pair) for place, query in enumerate(queries) for pair in looped_pairs(split, query)]
        # A query that comes twice has its documents twice, each with pairs of its own.
        starts = np.cumsum([0] + [sum(int(q) == query for q in split.queries) for query in queries])
        for position, better, worse in zip(
            drawn.query.tolist(), drawn.better.tolist(), drawn.worse.tolist(), strict=True
        ):
            assert starts[position] <= min(better, worse)
            assert max(better, worse) < starts[position + 1]
        cells = [2 * first + second for first, second in (groups_of(split, pair[1:]) for pair in found)]
        assert drawn.cell.tolist() == cells
        assert drawn.queries == len(queries)

    def test_means_and_shares(self):
        split = dataset_of().train
        drawn = QueryPairs(split).draw(torch.tensor([2, 5, 2]))
        values, chosen = numbers_of(1, 2, drawn.query.numel()), (drawn.cell == 1).double()
        for kept in (None, chosen):
            weights = torch.ones(drawn.query.numel()).double() if kept is None else kept
            means = drawn.means(values, kept)
            for position in range(3):
                inside = (drawn.query == position) & (weights > 0)
                torch.testing.assert_close(means[:, position], values[:, inside].mean(dim=1))
                shares = drawn.shares(weights)[drawn.query == position]
                assert float(shares.sum()) == pytest.approx(1.0)

    def test_without_groups_all_pairs_are_of_one_kind(self):
        features, relevance, _, numbers = raw()
        labels = (relevance > 1).astype(int)
        rows = np.arange(numbers.size)
        dataset = build_dataset(
            "ranking",
            features,
            labels,
            DatasetConfig(),
            columns={"queries": numbers},
            parts=[rows, rows[:0], rows[:0]],
        )
        assert set(QueryPairs(dataset.train).cell.tolist()) == {0}

    def test_queries_out_of_order_are_refused(self):
        _, _, _, numbers = raw()
        with pytest.raises(DataError, match="in the order of their numbers"):
            QueryPairs(dataset_of(queries=QUERIES - 1 - numbers).train)


class TestLosses:
    @MODELS
    @pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
    def test_values_and_gradients_are_those_of_the_loops(self, model, index):
        problem = problem_of(model)
        split, losses = problem.splits["train"], problem.form.objective.losses
        points = numbers_of(10, 2, problem.form.dimension)
        values, pullback = losses.linearize(points, index)
        cotangents = numbers_of(11, 2, 3, values.shape[1])
        gradients = pullback(cotangents)
        chosen = torch.arange(QUERIES)[index].tolist()
        for position, point in enumerate(points):
            leaf = point.clone().requires_grad_(True)
            scores = problem.predictor.scores(leaf, split.features)
            expected = torch.stack([looped_losses(scores, split, query) for query in chosen])
            torch.testing.assert_close(values[position], expected.detach(), rtol=1e-12, atol=1e-12)
            for cotangent, gradient in zip(cotangents[position], gradients[position], strict=True):
                (by_torch,) = torch.autograd.grad(expected, leaf, cotangent, retain_graph=True)
                torch.testing.assert_close(gradient, by_torch, rtol=1e-11, atol=1e-12)

    def test_the_objective_is_their_mean_and_a_ridge(self):
        problem = problem_of(l2=0.4)
        point, split = numbers_of(12, 4), problem.splits["train"]
        scores = split.features @ point[:-1] + point[-1]
        losses = [float(looped_losses(scores, split, query)) for query in range(QUERIES)]
        expected = np.mean(losses) + 0.2 * float(point.square().sum())
        assert float(problem.form.value(point)) == pytest.approx(expected, abs=1e-12)
        assert problem.form.samples == QUERIES

    @MODELS
    def test_the_difference_pullback_is_the_difference(self, model):
        problem = problem_of(model)
        losses, points = problem.form.objective.losses, numbers_of(13, 2, problem.form.dimension)
        index = torch.tensor([1, 4, 1])
        values, difference = losses.linearize_difference(points, index)
        cotangents = numbers_of(14, 2, 2, 3)
        expected, pullback = losses.linearize(points, index)
        here, there = pullback(cotangents)
        torch.testing.assert_close(values, expected)
        torch.testing.assert_close(difference(cotangents, 0.3), 0.3 * (here - there), rtol=1e-11, atol=1e-12)

    def test_the_intercept_does_not_matter(self):
        problem = problem_of(l2=0.0)
        gradient = problem.form.smooth_gradient(numbers_of(15, 4))
        assert float(gradient[-1]) == pytest.approx(0.0, abs=1e-15)


class TestConstraints:
    DRAWS = (slice(None), slice(3, 8), torch.tensor([5, 0, 5, 2, 11]))

    @MODELS
    @pytest.mark.parametrize("kind", ["bce", "hinge"])
    @pytest.mark.parametrize("index", DRAWS, ids=["all", "part", "repeated"])
    def test_surrogates_and_pullback_are_those_of_the_loops(self, model, kind, index):
        problem = problem_of(model, surrogate=kind, epsilon=0.1)
        constraints, split = problem.form.constraints, problem.splits["train"]
        points = numbers_of(20, 2, problem.form.dimension)
        values, pullback = constraints.surrogates(points, index)
        cotangents = numbers_of(21, 2, 2, values.shape[1])
        gradients = pullback(cotangents)
        for position, point in enumerate(points):
            leaf = point.clone().requires_grad_(True)
            expected = by_constraint(problem.predictor.scores(leaf, split.features), split, kind, 0.1)[index]
            torch.testing.assert_close(values[position], expected.detach(), rtol=1e-12, atol=1e-12)
            for cotangent, gradient in zip(cotangents[position], gradients[position], strict=True):
                (by_torch,) = torch.autograd.grad(expected, leaf, cotangent, retain_graph=True)
                torch.testing.assert_close(gradient, by_torch, rtol=1e-11, atol=1e-12)

    @pytest.mark.parametrize("index", DRAWS, ids=["all", "part", "repeated"])
    def test_rates_are_those_of_the_loops(self, index):
        problem = problem_of(epsilon=0.1)
        split, points = problem.splits["train"], numbers_of(22, 3, 4)
        rates = problem.form.constraints.violations(points, index)
        for position, point in enumerate(points):
            scores = split.features @ point[:-1] + point[-1]
            expected = by_constraint(scores, split, "exact", 0.1)[index]
            torch.testing.assert_close(rates[position], expected, rtol=1e-13, atol=1e-13)

    def test_the_two_sides_of_an_exact_rate_are_opposite(self):
        constraints = problem_of(epsilon=0.1).form.constraints
        first, second = (constraints.violations(numbers_of(23, 1, 4), slice(None))[0] + 0.1).view(-1, 2).unbind(dim=1)
        torch.testing.assert_close(first, -second)
        assert constraints.count == 2 * QUERIES

    def test_the_hinge_is_convex_and_never_below_the_rate(self):
        constraints = problem_of(surrogate="hinge").form.constraints
        assert constraints.convex
        points = torch.logspace(-3, 1, 60).double()[:, None] * numbers_of(24, 60, 4)
        values, _ = constraints.surrogates(points, slice(None))
        assert (values >= constraints.violations(points, slice(None)) - 1e-12).all()
        middle, _ = constraints.surrogates((points + points.flip(0)) / 2, slice(None))
        assert (middle <= (values + values.flip(0)) / 2 + 1e-12).all()

    def test_a_multiplier_model_sees_query_means_and_the_side(self):
        problem = problem_of()
        split, features = problem.splits["train"], problem.form.constraints.features
        assert features.shape == (2 * QUERIES, 3 + 2)
        for number, row in enumerate(features):
            inside = split.queries == number // 2
            sides = [1.0, 0.0] if number % 2 == 0 else [0.0, 1.0]
            assert row.tolist() == pytest.approx([*split.features[inside].mean(dim=0).tolist(), *sides], abs=1e-13)

    def test_float32_stays_float32(self):
        problem = problem_of(dataset=dataset_of().to("cpu", torch.float32))
        point = numbers_of(25, 1, 4).float()
        for part in (problem.form.constraints.surrogates, problem.form.objective.losses.linearize):
            values, pullback = part(point, torch.tensor([2, 2, 0]))
            assert values.dtype == pullback(torch.ones(1, 1, 3)).dtype == torch.float32
        assert problem.form.constraints.violations(point, slice(None)).dtype == torch.float32

    @pytest.mark.parametrize(("relevant", "which"), [(0, "group 0 above one of group 1"), (1, "group 1 above one of")])
    def test_a_query_without_a_needed_pair_is_refused(self, relevant, which):
        _, relevance, groups, numbers = raw()
        # In query 4 all relevant documents belong to the other group.
        groups[(numbers == 4) & (relevance > 1)] = 1 - relevant
        with pytest.raises(DataError, match=f"relevant document of {which}.*query 4 of the train rows.*has none"):
            problem_of(dataset=dataset_of(groups=groups))

    @pytest.mark.parametrize("settings", [{"epsilon": -0.1}, {"surrogate": "exact"}, {"l2": math.nan}], ids=str)
    def test_impossible_settings_are_refused(self, settings):
        with pytest.raises(SettingError):
            RankingFairnessConfig(**settings)


class TestScore:
    @staticmethod
    def expected(scores, split, epsilon):
        """Return errors by query, all errors, and violations; ties count one half, what is no number one."""

        def error(pair):
            margin = scores[pair[0]] - scores[pair[1]]
            return 0.0 if 0 < margin < math.inf else 0.5 if margin == 0 else 1.0

        by_query, pooled, violations = [], [], []
        for query in range(QUERIES):
            pairs = looped_pairs(split, query)
            by_query.append(np.mean([error(pair) for pair in pairs]))
            pooled += [error(pair) for pair in pairs]
            first, second = (
                np.mean([error(pair) for pair in pairs if groups_of(split, pair) == cell]) for cell in ((0, 1), (1, 0))
            )
            violations.append(abs(first - second) - epsilon)
        return by_query, pooled, violations

    @MODELS
    @pytest.mark.parametrize("split", ["train", "test"])
    def test_errors_and_violations_are_those_of_the_loops(self, model, split):
        problem = problem_of(model, epsilon=0.2)
        point, rows = numbers_of(30, problem.form.dimension), problem.splits[split]
        scores = problem.predictor.scores(point, rows.features).tolist()
        by_query, pooled, violations = self.expected(scores, rows, 0.2)
        score = problem.score(point, split)
        assert score.error == pytest.approx(np.mean(by_query), abs=1e-13)
        assert score.extra["pooled_error"] == pytest.approx(np.mean(pooled), abs=1e-13)
        assert score.max_violation == pytest.approx(max(violations), abs=1e-13)
        assert score.p95_violation == pytest.approx(np.quantile(violations, 0.95), abs=1e-13)
        assert score.p99_violation == pytest.approx(np.quantile(violations, 0.99), abs=1e-13)
        assert score.extra["mean_violation"] == pytest.approx(np.mean(violations), abs=1e-13)
        assert score.extra["violated_share"] == pytest.approx(np.mean(np.array(violations) > 0), abs=1e-13)

    def test_the_violation_is_the_largest_exact_constraint(self):
        problem = problem_of()
        point = numbers_of(31, 4)
        rates = problem.form.constraints.violations(point[None], slice(None))
        assert problem.score(point, "train").max_violation == pytest.approx(float(rates.max()), abs=1e-13)

    def test_ties_count_one_half(self):
        problem = problem_of(epsilon=0.2)
        score = problem.score(torch.zeros(4, dtype=torch.float64), "train")
        assert (score.error, score.max_violation) == (0.5, pytest.approx(-0.2))

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_scores_that_are_no_numbers_count_as_errors(self, bad, monkeypatch):
        problem = problem_of(epsilon=0.2)
        rows = problem.splits["train"]
        scores = numbers_of(32, rows.rows)
        # Some documents without a score, and some with the same one.
        scores[::4], scores[1::5] = bad, 0.25
        monkeypatch.setattr(problem.predictor, "scores", lambda point, features: scores)
        by_query, pooled, violations = self.expected(scores.tolist(), rows, 0.2)
        score = problem.score(torch.zeros(4, dtype=torch.float64), "train")
        assert score.error == pytest.approx(np.mean(by_query), abs=1e-13)
        assert score.extra["pooled_error"] == pytest.approx(np.mean(pooled), abs=1e-13)
        assert score.max_violation == pytest.approx(max(violations), abs=1e-13)

    def test_a_split_that_is_absent_has_no_score(self):
        problem = problem_of()
        assert problem.score(numbers_of(33, 4), "validation") is None

    def test_without_graded_relevance_there_is_no_gain(self):
        problem = problem_of(dataset=dataset_of(graded=False))
        assert "ndcg_10" not in problem.score(numbers_of(34, 4), "train").extra


class TestNdcg:
    @staticmethod
    def documents(seed, sizes):
        generator = np.random.default_rng(seed)
        total = sum(sizes)
        first = torch.tensor(np.concatenate([[0], np.cumsum(sizes)]))
        return (
            torch.from_numpy(generator.standard_normal(total)),
            torch.from_numpy(generator.integers(0, 5, total)),
            first,
        )

    @pytest.mark.parametrize("depth", [1, 3, 10, 50])
    def test_it_is_that_of_scikit_learn(self, depth):
        from sklearn.metrics import ndcg_score

        scores, relevance, first = self.documents(40, [5, 12, 30, 2, 17])
        found = ndcg(scores, relevance, first, depth)
        for query, value in enumerate(found.tolist()):
            rows = slice(int(first[query]), int(first[query + 1]))
            # Gains there are what is given, without the power of two.
            gains = 2.0 ** relevance[rows].numpy() - 1.0
            assert value == pytest.approx(ndcg_score(gains[None], scores[rows].numpy()[None], k=depth), abs=1e-13)

    def test_the_score_reports_its_mean_at_ten(self):
        from sklearn.metrics import ndcg_score

        problem = problem_of()
        point, rows = numbers_of(41, 4), problem.splits["train"]
        scores = (rows.features @ point[:-1] + point[-1]).numpy()
        expected = []
        for query in range(QUERIES):
            inside = (rows.queries == query).numpy()
            gains = 2.0 ** rows.relevance.numpy()[inside] - 1.0
            expected.append(ndcg_score(gains[None], scores[inside][None], k=10))
        assert problem.score(point, "train").extra["ndcg_10"] == pytest.approx(np.mean(expected), abs=1e-13)

    def test_documents_without_a_score_rank_last(self):
        scores, relevance, first = self.documents(42, [6, 4])
        last = scores.clone()
        scores[[1, 7]] = torch.tensor([math.nan, math.inf], dtype=torch.float64)
        last[[1, 7]] = -100.0
        torch.testing.assert_close(ndcg(scores, relevance, first, 10), ndcg(last, relevance, first, 10))

    def test_where_nothing_is_relevant_every_order_is_perfect(self):
        first = torch.tensor([0, 2, 4])
        scores, relevance = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0, 0, 0, 1])
        assert ndcg(scores, relevance, first, 10).tolist() == [1.0, 1.0]
