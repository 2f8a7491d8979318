"""True-positive rates of noisy groups: the proxies, the pool of constraints and the scores, against loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, DatasetConfig
from drobench.errors import SettingError
from drobench.objective.predictor import ModelConfig
from drobench_plugins.problems.noisy_group_fairness import (
    CONSTRAINT_FEATURES,
    NoisyGroupFairness,
    NoisyGroupFairnessConfig,
    chances_of_truth,
    noisy_proxies,
    resampled_groups,
)

LEVEL = 1e-3
"""Below this the seeded draws would be called not uniform."""


def raw(rows=120, seed=0, groups=3):
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((rows, 2))
    truth = generator.choice(groups, rows, p=np.array([0.6, 0.25, 0.15])[:groups] / sum([0.6, 0.25, 0.15][:groups]))
    truth[:groups] = range(groups)
    labels = (features[:, 0] + 0.5 * truth + generator.standard_normal(rows) > 0.3).astype(int)
    labels[:groups] = 1
    return features, labels, truth


def dataset_of(rows=120, data_seed=0, seed=0, groups=3, parts=None):
    features, labels, truth = raw(rows, data_seed, groups)
    return build_dataset("groups", features, labels, DatasetConfig(seed=seed), columns={"groups": truth}, parts=parts)


def problem_of(dataset=None, model=None, **settings):
    config = NoisyGroupFairnessConfig(**{"resamples": 4, **settings})
    return NoisyGroupFairness(config, dataset or dataset_of(), model or ModelConfig())


def weights_of(problem, seed=0):
    return torch.randn(problem.form.dimension, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class TestProxies:
    @pytest.mark.parametrize(
        ("noise", "rows", "moved"), [(0.3, 100, 30), (0.3, 101, 30), (0.0, 50, 0), (0.99, 10, 9), (0.29, 100, 29)]
    )
    def test_exactly_the_asked_share_moves_and_to_other_groups(self, noise, rows, moved):
        truth = raw(rows)[2]
        before = truth.copy()
        proxies = noisy_proxies(truth, 3, noise, np.random.default_rng(1))
        assert (proxies != truth).sum() == moved
        assert set(proxies) <= {0, 1, 2}
        np.testing.assert_array_equal(truth, before)

    def test_groups_and_rows_are_chosen_uniformly(self):
        truth = np.random.default_rng(2).choice(4, 40_000, p=[0.5, 0.3, 0.15, 0.05])
        proxies = noisy_proxies(truth, 4, 0.4, np.random.default_rng(3))
        moved = proxies != truth
        for group in range(4):
            counts = [np.sum(moved & (truth == group) & (proxies == other)) for other in range(4) if other != group]
            assert chisquare(counts).pvalue > LEVEL
        blocks = moved.reshape(40, -1).sum(axis=1)
        assert chisquare(blocks).pvalue > LEVEL

    def test_chances_are_the_shares_among_the_rows_of_a_proxy(self):
        truth = raw(300)[2]
        proxies = noisy_proxies(truth, 3, 0.3, np.random.default_rng(4))
        chances = chances_of_truth(truth, proxies, 3)
        for proxy in range(3):
            rows = [row for row in range(300) if proxies[row] == proxy]
            for group in range(3):
                share = sum(truth[row] == group for row in rows) / len(rows)
                assert chances[proxy, group] == pytest.approx(share, abs=1e-15)

    def test_a_proxy_that_does_not_occur_has_no_chances(self):
        chances = chances_of_truth(np.array([0, 0, 2]), np.array([0, 2, 2]), 3)
        np.testing.assert_allclose(chances, [[1, 0, 0], [0, 0, 0], [0.5, 0, 0.5]])

    def test_resampled_groups_have_the_chances(self):
        proxies = np.array([0, 1, 2, 1])
        chances = np.array([[0.7, 0.2, 0.1], [0.0, 0.4, 0.6], [0.5, 0.5, 0.0]])
        drawn = resampled_groups(proxies, chances, 20_000, np.random.default_rng(5))
        assert drawn.shape == (20_000, 4)
        for row, proxy in enumerate(proxies):
            counts = np.bincount(drawn[:, row], minlength=3)
            possible = chances[proxy] > 0
            assert counts[~possible].sum() == 0
            assert chisquare(counts[possible], 20_000 * chances[proxy][possible]).pvalue > LEVEL
        # Rows of the same proxy are drawn apart.
        both = np.bincount(3 * drawn[:, 1].astype(int) + drawn[:, 3], minlength=9).reshape(3, 3)[1:, 1:]
        assert chisquare(both.ravel(), 20_000 * np.outer([0.4, 0.6], [0.4, 0.6]).ravel()).pvalue > LEVEL

    @pytest.mark.parametrize("groups", [100, 200, 300])
    def test_many_groups_keep_their_numbers(self, groups):
        proxies = np.arange(groups)
        drawn = resampled_groups(proxies, np.eye(groups), 2, np.random.default_rng(6))
        np.testing.assert_array_equal(drawn, np.stack([proxies, proxies]))


class TestPool:
    def test_there_is_one_constraint_per_resample_and_group(self):
        problem = problem_of(resamples=7)
        assert problem.form.constraints.count == 3 * 7
        members = problem.form.constraints.members.reshape(7, 3, -1)
        # The groups of a resample divide the positive rows among themselves.
        positive = problem.splits["train"].labels
        assert torch.equal(members.sum(dim=1, dtype=torch.int64), positive.expand(7, -1))

    def test_without_noise_every_resample_is_the_truth(self):
        dataset = dataset_of()
        problem = problem_of(dataset, noise=0.0, resamples=3)
        assert torch.equal(problem.proxies["train"], dataset.train.groups)
        for number, members in enumerate(problem.form.constraints.members):
            expected = (dataset.train.groups == number % 3) & (dataset.train.labels == 1)
            assert torch.equal(members.bool(), expected)

    def test_groups_without_a_positive_row_are_left_out(self):
        features, labels, truth = raw(60)
        # Group 2 has a single positive training row, which some resamples give to another group.
        labels[truth == 2] = 0
        labels[2] = 1
        rows = np.arange(60)
        dataset = build_dataset(
            "groups",
            features,
            labels,
            DatasetConfig(),
            columns={"groups": truth},
            parts=[rows, rows[:0], rows[:0]],
        )
        problem = problem_of(dataset, resamples=50, noise=0.1)
        members = problem.form.constraints.members
        assert 100 < problem.form.constraints.count < 150
        assert members.shape[0] == problem.form.constraints.count == problem.form.constraints.features.shape[0]
        assert members.sum(dim=1).min() > 0

    def test_the_seed_of_the_dataset_fixes_it(self):
        dataset = dataset_of()
        first, second = problem_of(dataset), problem_of(dataset)
        assert torch.equal(first.form.constraints.members, second.form.constraints.members)
        for name, proxies in first.proxies.items():
            assert torch.equal(proxies, second.proxies[name])
        other = problem_of(replace(dataset, seed=1))
        assert not torch.equal(first.proxies["train"], other.proxies["train"])
        assert not torch.equal(first.form.constraints.members, other.form.constraints.members)

    def test_surrogates_are_those_of_the_resampled_groups(self):
        problem = problem_of(surrogate="hinge", merged=False)
        train, point = problem.splits["train"], weights_of(problem)
        margins = (2.0 * train.labels - 1.0) * (train.features @ point[:-1] + point[-1])
        positive = train.labels == 1
        values, _ = problem.form.constraints.surrogates(point[None], slice(None))
        for members, value in zip(problem.form.constraints.members.bool(), values[0].tolist(), strict=True):
            group = (1 - margins[members & positive]).clamp(min=0).mean()
            everybody = (1 - (1 + margins[positive]).clamp(min=0)).mean()
            assert value == pytest.approx(float(group - everybody) - 0.05, abs=1e-12)

    @pytest.mark.parametrize(("surrogate", "merged"), [("hinge", True), ("hinge", False), ("bce", True)])
    def test_weights_are_merged_for_the_hinge_only(self, surrogate, merged):
        problem = problem_of(surrogate=surrogate, merged=merged)
        assert problem.form.constraints.merged == (merged and surrogate == "hinge")

    @pytest.mark.parametrize("kind", CONSTRAINT_FEATURES)
    @pytest.mark.parametrize("proxies", [True, False])
    def test_what_a_multiplier_model_sees(self, kind, proxies):
        problem = problem_of(noise=0.0, constraint_features=kind, proxy_features=proxies)
        train, dataset = problem.splits["train"], dataset_of()
        seen = problem.form.constraints.features
        assert seen.dtype == torch.float64
        for number, row in enumerate(seen):
            # Without noise, constraint `number` is about the true group `number % 3`, with all of its rows.
            members = [position for position in range(train.rows) if int(dataset.train.groups[position]) == number % 3]
            share = len(members) / train.rows
            rate = sum(int(train.labels[position]) for position in members) / len(members)
            expected = {
                "membership": [float(position in members) for position in range(train.rows)],
                "size": [share],
                "size_and_rate": [share, rate],
                "means": train.features[members].mean(dim=0).tolist(),
            }[kind]
            assert row.tolist() == pytest.approx(expected, abs=1e-13)


class TestRows:
    def test_proxies_become_columns(self):
        dataset = dataset_of()
        seeing, blind = problem_of(dataset), problem_of(dataset, proxy_features=False)
        for name in ("train", "validation", "test"):
            given = getattr(dataset, name)
            assert torch.equal(blind.splits[name].features, given.features)
            features = seeing.splits[name].features
            assert torch.equal(features[:, :2], given.features)
            expected = torch.zeros(given.rows, 3, dtype=torch.float64)
            for row, proxy in enumerate(seeing.proxies[name].tolist()):
                expected[row, proxy] = 1.0
            assert torch.equal(features[:, 2:], expected)
        assert seeing.form.dimension == blind.form.dimension + 3 == 2 + 3 + 1

    def test_every_split_has_its_share_of_noise(self):
        dataset = dataset_of()
        problem = problem_of(dataset, noise=0.3)
        for name in ("train", "validation", "test"):
            split = getattr(dataset, name)
            assert int((problem.proxies[name] != split.groups).sum()) == 3 * split.rows // 10

    def test_a_group_that_training_does_not_know_is_refused(self):
        truth = raw()[2]
        known, unknown = np.flatnonzero(truth < 2), np.flatnonzero(truth == 2)
        parts = [known[:60], known[60:], unknown]
        with pytest.raises(DataError, match="the test rows have a group 2 that the training rows, with groups 0 to 1"):
            problem_of(dataset_of(parts=parts))

    @pytest.mark.parametrize("group", [0, 1])
    def test_a_single_group_is_refused(self, group):
        rows = np.flatnonzero(raw()[2] == group)
        with pytest.raises(DataError, match="at least two groups; found one"):
            problem_of(dataset_of(parts=[rows, rows[:0], rows[:0]]))

    @pytest.mark.parametrize(
        "settings",
        [{"noise": 1.0}, {"noise": -0.1}, {"resamples": 0}, {"constraint_features": "age"}, {"surrogate": "zero"}],
        ids=str,
    )
    def test_impossible_settings_are_refused(self, settings):
        with pytest.raises(SettingError):
            NoisyGroupFairnessConfig(**settings)


class TestScore:
    @pytest.mark.parametrize("model", [ModelConfig(), ModelConfig("mlp", hidden=[4])], ids=["linear", "network"])
    @pytest.mark.parametrize("split", ["train", "validation", "test"])
    def test_violations_are_gaps_of_true_positive_rates(self, model, split):
        dataset = dataset_of()
        problem = problem_of(dataset, model, epsilon=0.02)
        point, rows = weights_of(problem, 3), getattr(dataset, split)
        scores = problem.predictor.scores(point, problem.splits[split].features).tolist()
        labels, groups = rows.labels.tolist(), rows.groups.tolist()

        def rate(chosen):
            return sum(scores[row] > 0 for row in chosen) / len(chosen)

        positives = [row for row in range(rows.rows) if labels[row] == 1]
        gaps = [
            rate(positives) - rate([row for row in positives if groups[row] == group]) - 0.02
            for group in sorted({groups[row] for row in positives})
        ]
        wrong = [(score > 0) != (label == 1) for score, label in zip(scores, labels, strict=True)]
        score = problem.score(point, split)
        assert score.error == pytest.approx(np.mean(wrong), abs=1e-14)
        assert score.max_violation == pytest.approx(max(gaps), abs=1e-14)
        assert score.p95_violation == pytest.approx(np.quantile(gaps, 0.95), abs=1e-14)
        assert score.p99_violation == pytest.approx(np.quantile(gaps, 0.99), abs=1e-14)
        assert score.extra["mean_violation"] == pytest.approx(np.mean(gaps), abs=1e-14)
        assert score.extra["violated_share"] == pytest.approx(np.mean(np.array(gaps) > 0))
        assert ("max_surrogate" in score.extra) == (split == "train")

    @pytest.mark.parametrize("seed", range(3))
    def test_they_are_those_of_fairlearn(self, seed):
        from fairlearn.metrics import MetricFrame, true_positive_rate

        dataset = dataset_of(data_seed=seed)
        problem = problem_of(dataset, epsilon=0.05)
        point, rows = weights_of(problem, seed), dataset.test
        predicted = (problem.predictor.scores(point, problem.splits["test"].features) > 0).long().numpy()
        frame = MetricFrame(
            metrics=true_positive_rate,
            y_true=rows.labels.numpy(),
            y_pred=predicted,
            sensitive_features=rows.groups.numpy(),
        )
        worst = float(frame.overall) - float(frame.by_group.min()) - 0.05
        assert problem.score(point, "test").max_violation == pytest.approx(worst, abs=1e-14)

    def test_the_surrogate_reported_is_the_largest_of_the_pool(self):
        problem = problem_of()
        point = weights_of(problem)
        values, _ = problem.form.constraints.surrogates(point[None], slice(None))
        assert problem.score(point, "train").extra["max_surrogate"] == pytest.approx(float(values.max()))

    def test_ties_count_one_half_and_scores_that_are_no_numbers_as_errors(self):
        problem = problem_of(epsilon=0.05)
        nothing = torch.zeros(problem.form.dimension, dtype=torch.float64)
        score = problem.score(nothing, "test")
        assert (score.error, score.max_violation) == (0.5, pytest.approx(-0.05))
        score = problem.score(nothing * torch.nan, "test")
        assert (score.error, score.max_violation) == (1.0, pytest.approx(-0.05))

    def test_a_split_that_is_absent_has_no_score(self):
        rows = np.arange(120)
        problem = problem_of(dataset_of(parts=[rows[:100], rows[:0], rows[100:]]))
        assert problem.score(weights_of(problem), "validation") is None
        assert problem.score(weights_of(problem), "test") is not None

    def test_a_split_without_positive_rows_has_an_error_only(self):
        _, labels, _ = raw()
        bad = np.flatnonzero(labels == 0)[:5]
        problem = problem_of(dataset_of(parts=[np.setdiff1d(np.arange(120), bad), bad[:0], bad]))
        score = problem.score(weights_of(problem), "test")
        assert score.error is not None
        assert score.max_violation is None

    def test_float32_data_are_scored_alike(self):
        dataset = dataset_of()
        wide = problem_of(dataset)
        narrow = problem_of(dataset.to("cpu", torch.float32))
        point = weights_of(wide)
        assert narrow.form.constraints.features.dtype == torch.float32
        for split in ("train", "test"):
            expected, found = wide.score(point, split), narrow.score(point.float(), split)
            assert found.error == pytest.approx(expected.error, abs=1e-6)
            assert found.max_violation == pytest.approx(expected.max_violation, abs=1e-6)
