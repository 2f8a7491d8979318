"""Error rates of threshold groups: thresholds, membership, multiplicity and scores, against loops."""

from itertools import product

import numpy as np
import pytest
import torch

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, DatasetConfig
from drobench.errors import SettingError
from drobench.objective.losses import HingeLoss
from drobench.objective.predictor import ModelConfig
from drobench_plugins.problems.intersectional_fairness import IntersectionalFairness, IntersectionalFairnessConfig

SPLITS = ("train", "validation", "test")


def raw(rows=150, attributes=2, levels=None, seed=0):
    """Return features, labels and attributes; with `levels` the attributes take so many values only."""
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((rows, 3))
    numbers = generator.random((rows, attributes))
    if levels is not None:
        numbers = np.floor(levels * numbers) / levels
    labels = (features[:, 0] - numbers[:, 0] + 0.7 * generator.standard_normal(rows) > -0.4).astype(int)
    return features, labels, numbers


def dataset_of(parts=None, order=None, **settings):
    features, labels, numbers = raw(**settings)
    if order is not None:
        features, labels, numbers = features[order], labels[order], numbers[order]
    return build_dataset("attributes", features, labels, DatasetConfig(), columns={"attributes": numbers}, parts=parts)


def problem_of(dataset=None, **settings):
    config = IntersectionalFairnessConfig(**{"grid": 4, "smallest_share": 0.05, **settings})
    return IntersectionalFairness(config, dataset or dataset_of(), ModelConfig())


def point_of(problem, seed=0):
    return torch.randn(problem.form.dimension, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def members_of(split, threshold):
    """Return the rows whose attributes all exceed the threshold."""
    return [
        row
        for row, numbers in enumerate(split.attributes.tolist())
        if all(number > limit for number, limit in zip(numbers, threshold, strict=True))
    ]


def expected_thresholds(dataset, grid, share):
    """Return the thresholds of the groups that are large enough in every split that is there."""
    levels = [(step + 0.5) / grid for step in range(grid)]
    columns = dataset.train.attributes.double().numpy().T
    kept = []
    for threshold in product(*[[float(np.quantile(column, level)) for level in levels] for column in columns]):
        splits = [split for split in (dataset.train, dataset.validation, dataset.test) if split is not None]
        if all(len(members_of(split, threshold)) > share * split.rows for split in splits):
            kept.append(threshold)
    return kept


def mistakes_of(point, split):
    """Return the 0-1 losses of a linear classifier with intercept; no score is zero."""
    scores = (split.features.numpy() @ point.numpy()[:-1] + point.numpy()[-1]).tolist()
    return [float((score > 0) != (label == 1)) for score, label in zip(scores, split.labels.tolist(), strict=True)]


def violations_of(problem, point, split):
    wrong = mistakes_of(point, split)
    overall = sum(wrong) / len(wrong)
    groups = [members_of(split, threshold) for threshold in problem.thresholds.tolist()]
    return [sum(wrong[row] for row in group) / len(group) - overall - problem.config.epsilon for group in groups]


class TestGroups:
    @pytest.mark.parametrize("attributes", [1, 2, 3])
    @pytest.mark.parametrize("share", [0.01, 0.1, 0.2])
    def test_thresholds_are_quantiles_of_groups_that_are_large_enough(self, attributes, share):
        dataset = dataset_of(attributes=attributes)
        problem = problem_of(dataset, grid=3, smallest_share=share)
        expected = expected_thresholds(dataset, 3, share)
        assert problem.thresholds.shape == (len(expected), attributes)
        torch.testing.assert_close(problem.thresholds, torch.tensor(expected, dtype=torch.float64))
        assert torch.equal(problem.form.constraints.features, problem.thresholds)
        assert 0 < len(expected) <= 3**attributes

    def test_a_share_that_is_just_reached_is_too_small(self):
        # Ten training rows with attributes 0 to 9: above the threshold 4.5 there are five.
        features, labels, _ = raw(rows=10)
        labels[:2] = 0, 1
        rows = np.arange(10)
        dataset = build_dataset(
            "attributes",
            features,
            labels,
            DatasetConfig(),
            columns={"attributes": np.arange(10.0)[:, None]},
            parts=[rows, rows[:0], rows[:0]],
        )
        assert problem_of(dataset, grid=1, smallest_share=0.49).thresholds.tolist() == [[4.5]]
        with pytest.raises(DataError, match=r"none of the 1 groups holds more than 0\.5 of the rows"):
            problem_of(dataset, grid=1, smallest_share=0.5)

    def test_a_group_may_be_too_small_in_another_split_only(self):
        numbers = raw()[2]
        # The test rows are those with small attributes: no group of the upper grid is there.
        order = np.argsort(numbers[:, 0])
        parts = [np.sort(order[40:]), order[:0], np.sort(order[:40])]
        dataset = dataset_of(parts=parts)
        alone = dataset_of(parts=[parts[0], order[:0], order[:0]])
        with pytest.raises(DataError, match="none of the 16 groups"):
            problem_of(dataset)
        assert problem_of(alone).form.constraints.count > 0

    def test_none_large_enough_is_refused(self):
        with pytest.raises(DataError, match=r"none of the 16 groups holds more than 0\.95"):
            problem_of(smallest_share=0.95)

    @pytest.mark.parametrize("settings", [{"grid": 0}, {"smallest_share": 0.0}, {"epsilon": -1.0}], ids=str)
    def test_impossible_settings_are_refused(self, settings):
        with pytest.raises(SettingError):
            IntersectionalFairnessConfig(**settings)

    def test_whole_numbers_are_attributes_too(self):
        features, labels, numbers = raw(levels=400)
        whole = np.round(400 * numbers).astype(np.int64)
        dataset = build_dataset("attributes", features, labels, DatasetConfig(), columns={"attributes": whole})
        problem = problem_of(dataset, grid=3)
        expected = expected_thresholds(dataset, 3, 0.05)
        assert any(limit != round(limit) for threshold in expected for limit in threshold)
        torch.testing.assert_close(problem.thresholds, torch.tensor(expected, dtype=torch.float64))
        point = point_of(problem)
        expected = violations_of(problem, point, dataset.test)
        assert problem.score(point, "test").max_violation == pytest.approx(max(expected), abs=1e-13)


class TestConstraints:
    def test_groups_of_the_same_rows_are_kept_once_and_counted_as_often_as_they_occur(self):
        problem = problem_of(dataset_of(levels=3), grid=8)
        constraints, train = problem.form.constraints, problem.splits["train"]
        groups = [tuple(members_of(train, threshold)) for threshold in problem.thresholds.tolist()]
        assert constraints.count == len(groups)
        assert constraints.members.shape[0] == len(set(groups)) < len(groups)
        for number, group in enumerate(groups):
            kept = constraints.members[constraints.which[number]]
            assert torch.nonzero(kept)[:, 0].tolist() == list(group)

    @pytest.mark.parametrize("surrogate", ["bce", "hinge"])
    @pytest.mark.parametrize("index", [slice(None), torch.tensor([3, 0, 3])], ids=["all", "drawn"])
    def test_surrogates_are_the_loops(self, surrogate, index):
        problem = problem_of(dataset_of(levels=3), grid=5, surrogate=surrogate)
        train, point = problem.splits["train"], point_of(problem)
        margins = (2.0 * train.labels - 1.0) * (train.features @ point[:-1] + point[-1])
        if surrogate == "bce":
            upper = lower = torch.log1p(torch.exp(-margins))
        else:
            upper, lower = (1 - margins).clamp(min=0), 1 - (1 + margins).clamp(min=0)
        groups = [members_of(train, threshold) for threshold in problem.thresholds.tolist()]
        expected = torch.stack([upper[group].mean() - lower.mean() - 0.01 for group in groups])[index]
        values, pullback = problem.form.constraints.surrogates(point[None], index)
        torch.testing.assert_close(values[0], expected, rtol=1e-12, atol=1e-12)
        assert pullback(torch.ones_like(values)[None]).shape == (1, 1, problem.form.dimension)

    def test_rates_are_the_training_violations(self):
        problem = problem_of(dataset_of(levels=3), grid=5)
        point = point_of(problem)
        expected = violations_of(problem, point, problem.splits["train"])
        rates = problem.form.constraints.violations(point[None], slice(None))
        assert rates[0].tolist() == pytest.approx(expected, abs=1e-13)

    @pytest.mark.parametrize(("loss", "at_zero"), [("logistic", np.log(2.0)), ("hinge", 1.0)])
    def test_the_objective_is_the_mean_loss_and_a_ridge(self, loss, at_zero):
        problem = problem_of(loss=loss, l2=0.3)
        train, point = problem.splits["train"], point_of(problem).requires_grad_(True)
        margins = (2.0 * train.labels - 1.0) * (train.features @ point[:-1] + point[-1])
        losses = torch.log1p(torch.exp(-margins)) if loss == "logistic" else (1 - margins).clamp(min=0)
        (gradient,) = torch.autograd.grad(losses.mean(), point, retain_graph=True)
        expected = float((losses.mean() + 0.15 * point.square().sum()).detach())
        point = point.detach()
        torch.testing.assert_close(problem.form.smooth_gradient(point), gradient, rtol=1e-12, atol=1e-12)
        assert float(problem.form.value(point)) == pytest.approx(expected, abs=1e-12)
        assert float(problem.form.value(torch.zeros_like(point))) == pytest.approx(at_zero)

    def test_the_hinge_and_its_slope(self):
        margins = torch.tensor([-5.0, 0.0, 0.75, 1.0, 1.25], dtype=torch.float64)
        values, slopes = HingeLoss().of_margin(margins)
        assert values.tolist() == [6.0, 1.0, 0.25, 0.0, 0.0]
        # At the kink the slope from the right.
        assert slopes.tolist() == [-1.0, -1.0, -1.0, 0.0, 0.0]


class TestScore:
    @pytest.mark.parametrize("split", SPLITS)
    @pytest.mark.parametrize("levels", [None, 3])
    def test_violations_are_the_loops(self, split, levels):
        dataset = dataset_of(levels=levels)
        problem = problem_of(dataset, grid=6)
        point = point_of(problem, 1)
        expected = violations_of(problem, point, getattr(dataset, split))
        score = problem.score(point, split)
        assert score.error == pytest.approx(np.mean(mistakes_of(point, getattr(dataset, split))), abs=1e-14)
        assert score.max_violation == pytest.approx(max(expected), abs=1e-13)
        assert score.p95_violation == pytest.approx(np.quantile(expected, 0.95), abs=1e-13)
        assert score.p99_violation == pytest.approx(np.quantile(expected, 0.99), abs=1e-13)
        assert score.extra["mean_violation"] == pytest.approx(np.mean(expected), abs=1e-13)
        assert score.extra["violated_share"] == pytest.approx(np.mean(np.array(expected) > 0), abs=1e-13)

    def test_percentiles_differ_where_there_are_many_groups(self):
        problem = problem_of(grid=10)
        score = problem.score(point_of(problem, 1), "train")
        assert score.max_violation > score.p99_violation > score.p95_violation

    def test_they_are_those_of_fairlearn(self):
        from fairlearn.metrics import MetricFrame
        from sklearn.metrics import zero_one_loss

        dataset = dataset_of()
        problem = problem_of(dataset, grid=3)
        point, rows = point_of(problem, 2), dataset.test
        predicted = (problem.predictor.scores(point, rows.features) > 0).long().numpy()
        gaps = []
        for threshold in problem.thresholds.tolist():
            inside = np.zeros(rows.rows, dtype=int)
            inside[members_of(rows, threshold)] = 1
            frame = MetricFrame(
                metrics=zero_one_loss, y_true=rows.labels.numpy(), y_pred=predicted, sensitive_features=inside
            )
            gaps.append(float(frame.by_group[1]) - float(frame.overall) - 0.01)
        score = problem.score(point, "test")
        assert score.max_violation == pytest.approx(max(gaps), abs=1e-13)
        assert score.p95_violation == pytest.approx(np.quantile(gaps, 0.95), abs=1e-13)

    def test_the_surrogate_reported_is_the_largest(self):
        problem = problem_of()
        point = point_of(problem)
        values, _ = problem.form.constraints.surrogates(point[None], slice(None))
        assert problem.score(point, "train").extra["max_surrogate"] == pytest.approx(float(values.max()))
        assert "max_surrogate" not in problem.score(point, "test").extra

    @pytest.mark.parametrize("levels", [None, 3])
    def test_the_order_of_the_rows_does_not_matter(self, levels):
        rows, shuffle = np.arange(150), np.random.default_rng(9).permutation(150)
        position = np.argsort(shuffle)
        parts = [rows[:90], rows[90:120], rows[120:]]
        straight = problem_of(dataset_of(parts=parts, levels=levels))
        # The same rows in every split, in the order of a shuffled table.
        moved = problem_of(dataset_of([np.sort(position[part]) for part in parts], order=shuffle, levels=levels))
        torch.testing.assert_close(moved.thresholds, straight.thresholds, rtol=0, atol=0)
        point = point_of(straight)
        for split in SPLITS:
            first, second = straight.score(point, split), moved.score(point, split)
            for name in ("error", "max_violation", "p95_violation", "p99_violation"):
                assert getattr(second, name) == pytest.approx(getattr(first, name), abs=1e-13)
            assert second.extra == pytest.approx(first.extra, abs=1e-12)

    def test_scores_that_are_no_numbers_count_as_errors(self):
        problem = problem_of()
        score = problem.score(point_of(problem) * torch.nan, "test")
        assert (score.error, score.max_violation) == (1.0, pytest.approx(-0.01))

    def test_float32_data_are_scored_alike(self):
        dataset = dataset_of()
        wide, narrow = problem_of(dataset), problem_of(dataset.to("cpu", torch.float32))
        point = point_of(wide)
        assert narrow.form.constraints.features.dtype == torch.float32
        for split in SPLITS:
            expected, found = wide.score(point, split), narrow.score(point.float(), split)
            assert found.error == pytest.approx(expected.error, abs=1e-6)
            assert found.max_violation == pytest.approx(expected.max_violation, abs=1e-6)
