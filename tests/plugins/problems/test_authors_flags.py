"""Flags that reproduce defects of released scripts: off by default, and what each of them does."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch

from drobench.data.build import build_dataset
from drobench.data.dataset import DatasetConfig
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, Constraints, FiniteSum
from drobench.objective.losses import NoLosses
from drobench.objective.predictor import ModelConfig
from drobench.objective.regularizers import Zero
from drobench.objective.sampling import Rows
from drobench.reformulation.constraints import SmoothedConstraints
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench_plugins.problems.intersectional_fairness import IntersectionalFairness, IntersectionalFairnessConfig
from drobench_plugins.problems.noisy_group_fairness import NoisyGroupFairness, NoisyGroupFairnessConfig

EVERYTHING = Rows(None, slice(None), covered=1.0)
START = torch.zeros(1, dtype=torch.float64)


class Levels(Constraints):
    """`c_k(x) = x + ln e_k`, the exponentials of which are `e_k exp(x)`; and cheap ones of the same make."""

    dimension = 1

    def __init__(self, exponentials, cheap=()):
        self.logarithms = torch.tensor(exponentials, dtype=torch.float64).log()
        self.cheap_logarithms = torch.tensor(cheap, dtype=torch.float64).log()
        self.count, self.cheap_count = len(exponentials), len(cheap)
        self.features = self.logarithms[:, None]

    def surrogates(self, points, index):
        return points + self.logarithms[index], lambda cotangents: cotangents.sum(dim=-1, keepdim=True)

    def cheap(self, points):
        return points + self.cheap_logarithms, lambda cotangents: cotangents.sum(dim=-1, keepdim=True)

    def violations(self, points, index):
        return self.surrogates(points, index)[0]


def levels(exponentials, cheap=(), *, biased):
    form = Constrained(FiniteSum(NoLosses(START), Zero()), Levels(exponentials, cheap))
    return SmoothedConstraints(form, 1.0, 1.0, biased_extra_term=biased)


def draws_of(form, draws):
    """Return the estimates of inner value and slope at zero, at shift zero, for each of the draws."""
    found = [form.estimate(START[None], Rows(None, torch.tensor(draw)), torch.zeros(()).double()) for draw in draws]
    return tuple(
        torch.stack([getattr(one, field).flatten() for one in found]) for field in ("inner_value", "inner_jacobian")
    )


class TestBiasedExtraTerm:
    def test_the_bias_for_ten_of_forty_one(self):
        """41 exponentials around 0.546: the true mean is 0.5569, the rule's is 0.5874 (0.5875 with sampling error)."""
        exponentials = np.linspace(0.1, 2 * 0.54609 - 0.1, 41)
        # Each constraint is in ten of the 41 windows of ten, as it is in all draws of ten: the mean is the same.
        windows = [[(first + step) % 41 for step in range(10)] for first in range(41)]
        biased, _ = draws_of(levels(exponentials, biased=True), windows)
        unbiased, _ = draws_of(levels(exponentials, biased=False), windows)
        true = (1.0 + exponentials.sum()) / 42
        assert true == pytest.approx(0.5569, abs=5e-5)
        assert float(unbiased.mean()) == pytest.approx(true, rel=1e-12)
        assert float(biased.mean()) == pytest.approx((1.0 + 10 * exponentials.mean()) / 11, rel=1e-12)
        assert float(biased.mean()) == pytest.approx(0.5875, abs=2e-4)

    @pytest.mark.parametrize("cheap", [(), (0.7, 1.9)])
    def test_every_draw_follows_the_rule(self, cheap):
        exponentials = [0.2, 0.5, 0.1, 3.0, 0.4]
        draws = [*combinations(range(5), 2), (3, 3), (1, 1)]
        values, slopes = draws_of(levels(exponentials, cheap, biased=True), draws)
        for draw, value, slope in zip(draws, values, slopes, strict=True):
            total = sum(exponentials[k] for k in draw) + sum(cheap)
            assert float(value) == pytest.approx((1.0 + total) / (3 + len(cheap)), rel=1e-13)
            assert float(slope) == pytest.approx(total / (3 + len(cheap)), rel=1e-13)
        true = (1.0 + sum(exponentials) + sum(cheap)) / (6 + len(cheap))
        assert abs(float(values[:10].mean()) - true) > 0.01

    @pytest.mark.parametrize("biased", [False, True])
    @pytest.mark.parametrize("cheap", [(), (0.7, 1.9)])
    def test_a_change_is_the_difference_of_two_estimates(self, biased, cheap):
        form = levels([0.2, 0.5, 0.1, 3.0, 0.4], cheap, biased=biased)
        points, shift = torch.tensor([[0.3], [-0.2]]).double(), torch.tensor(0.4).double()
        for draw in combinations(range(5), 3):
            rows = Rows(None, torch.tensor(draw), covered=3 / 5)
            both, change = form.estimate(points, rows, shift), form.change(points, rows, shift)
            assert change.inner_value == pytest.approx((both.inner_value[0] - both.inner_value[1]).tolist())
            torch.testing.assert_close(change.inner_jacobian, both.inner_jacobian[0] - both.inner_jacobian[1])
            assert change.inner_floor == pytest.approx(both.inner_floor[0].tolist())
            # The floor bounds the true mean, not the estimate.
            true = form.estimate(points, EVERYTHING, shift).inner_value
            assert (both.inner_floor <= true).all()

    @pytest.mark.parametrize("cheap", [(), (0.7, 1.9)])
    def test_full_draws_agree(self, cheap):
        points, shift = torch.tensor([[0.3], [-0.2]]).double(), torch.tensor(0.4).double()
        forms = [levels([0.2, 0.5, 0.1, 3.0, 0.4], cheap, biased=biased) for biased in (False, True)]
        for one, other in (
            [form.estimate(points, EVERYTHING, shift) for form in forms],
            [form.change(points, EVERYTHING, shift) for form in forms],
        ):
            for first, second in zip(one, other, strict=True):
                torch.testing.assert_close(first, second, rtol=1e-14, atol=0)
        assert float(forms[0].value(points[0])) == float(forms[1].value(points[0]))

    def test_parts_of_a_draw_add_up_to_it(self):
        form = levels([0.2, 0.5, 0.1, 3.0, 0.4], (0.7,), biased=True)
        whole, first, second = (
            form.estimate(START[None], Rows(None, torch.tensor(draw), constraint_share=share), torch.zeros(()).double())
            for draw, share in (([0, 3, 4], 1.0), ([0], 1 / 3), ([3, 4], 2 / 3))
        )
        for field in ("inner_value", "inner_jacobian"):
            pooled = getattr(first, field) / 3 + getattr(second, field) * 2 / 3
            torch.testing.assert_close(pooled, getattr(whole, field), rtol=1e-14, atol=0)

    def test_it_is_off_unless_asked_for(self):
        constrained = Constrained(FiniteSum(NoLosses(START), Zero()), Levels([0.5, 0.5]))
        plain = find_route(constrained, (Composite,), ReformulationConfig(gamma=1.0)).form
        asked = find_route(constrained, (Composite,), ReformulationConfig(gamma=1.0, biased_extra_term=True)).form
        assert (plain.biased_extra_term, asked.biased_extra_term) == (False, True)


def people(rows=160, seed=0):
    """Return rows with three groups, labels that are mostly negative, and two attributes."""
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((rows, 2))
    groups = generator.choice(3, rows, p=[0.6, 0.25, 0.15])
    labels = (features[:, 0] + 0.4 * groups + generator.standard_normal(rows) > 0.9).astype(int)
    columns = {"groups": groups, "attributes": generator.random((rows, 2))}
    return build_dataset("people", features, labels, DatasetConfig(), columns=columns)


def noisy(**settings):
    return NoisyGroupFairness(NoisyGroupFairnessConfig(**{"resamples": 4, **settings}), people(), ModelConfig())


def intersectional(**settings):
    config = IntersectionalFairnessConfig(**{"grid": 3, "smallest_share": 0.05, **settings})
    return IntersectionalFairness(config, people(), ModelConfig())


def point_of(problem, seed=0):
    return torch.randn(problem.form.dimension, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_flags_are_off_by_default():
    assert not NoisyGroupFairnessConfig().compare_with_everybody
    assert not NoisyGroupFairnessConfig().fold_errors
    assert not IntersectionalFairnessConfig().fold_errors
    assert NoisyGroupFairnessConfig().resampling
    assert not ReformulationConfig().biased_extra_term


class TestCompareWithEverybody:
    def test_the_constraint_is_the_loss_of_the_groups_positives_less_that_of_all_rows(self):
        problem = noisy(compare_with_everybody=True, resampling=False, epsilon=0.01)
        train, point = problem.splits["train"], point_of(problem)
        scores = problem.predictor.scores(point, train.features).tolist()
        losses = [
            math.log1p(math.exp(-score if label else score))
            for score, label in zip(scores, train.labels.tolist(), strict=True)
        ]
        rows = list(zip(losses, train.labels.tolist(), problem.proxies["train"].tolist(), strict=True))
        expected = []
        for group in range(3):
            own = [loss for loss, label, proxy in rows if label == 1 and proxy == group]
            expected.append(sum(own) / len(own) - sum(losses) / len(losses) - 0.01)
        found, pullback = problem.form.constraints.surrogates(point[None], slice(None))
        assert found[0].tolist() == pytest.approx(expected, rel=1e-12)
        slopes = pullback(torch.eye(3).double()[None])[0]
        for axis, step in enumerate(1e-6 * torch.eye(len(point)).double()):
            plus, minus = (
                problem.form.constraints.surrogates(one[None], slice(None))[0] for one in (point + step, point - step)
            )
            torch.testing.assert_close(slopes[:, axis], (plus - minus)[0] / 2e-6, rtol=1e-6, atol=1e-8)

    def test_otherwise_it_is_a_difference_of_rates_and_the_two_differ(self):
        problems = [noisy(resampling=False, compare_with_everybody=flag) for flag in (False, True)]
        values = [one.form.constraints.surrogates(point_of(one)[None], slice(None))[0][0] for one in problems]
        # Everybody is another set of rows, for all groups alike.
        differences = values[1] - values[0]
        torch.testing.assert_close(differences, differences[:1].expand(3), rtol=1e-9, atol=0)
        assert float(differences.abs().min()) > 0.01

    def test_scores_stay_those_of_true_positive_rates(self):
        plain, asked = noisy(), noisy(compare_with_everybody=True)
        point = point_of(plain)
        for split in ("validation", "test"):
            assert plain.score(point, split) == asked.score(point, split)
        assert plain.score(point, "train").max_violation == asked.score(point, "train").max_violation


class TestResampling:
    def test_without_it_the_proxies_are_the_only_grouping(self):
        problem = noisy(resampling=False)
        constraints, train = problem.form.constraints, problem.splits["train"]
        assert constraints.count == 3
        for group in range(3):
            expected = (problem.proxies["train"] == group) & (train.labels == 1)
            assert torch.equal(constraints.members[group].bool(), expected)

    def test_the_proxies_do_not_depend_on_it(self):
        drawn, fixed = noisy(), noisy(resampling=False)
        assert drawn.form.constraints.count == 12
        for split in ("train", "validation", "test"):
            assert torch.equal(drawn.proxies[split], fixed.proxies[split])


class TestFoldErrors:
    @staticmethod
    def all_positive(problem):
        point = torch.zeros(problem.form.dimension, dtype=torch.float64)
        point[-1] = 5.0
        return point

    def test_calling_everybody_positive_looks_good(self):
        plain, folded = intersectional(), intersectional(fold_errors=True)
        for split in ("train", "validation", "test"):
            negatives = 1.0 - float(plain.splits[split].labels.double().mean())
            assert negatives > 0.6
            assert plain.score(self.all_positive(plain), split).error == pytest.approx(negatives, rel=1e-12)
            assert folded.score(self.all_positive(folded), split).error == pytest.approx(1.0 - negatives, rel=1e-12)

    def test_the_rates_of_groups_are_folded_too(self):
        folded, seen = intersectional(fold_errors=True), 0
        for point in (self.all_positive(folded), point_of(folded), -point_of(folded)):
            train = folded.splits["train"]
            wrong = (folded.predictor.scores(point, train.features) > 0).long() != train.labels
            overall = float(wrong.double().mean())
            violations = []
            for threshold in folded.thresholds:
                rate = float(wrong[(train.attributes > threshold).all(dim=1)].double().mean())
                violations.append(min(rate, 1.0 - rate) - min(overall, 1.0 - overall) - folded.config.epsilon)
                seen += rate > 0.5
            score = folded.score(point, "train")
            assert score.max_violation == pytest.approx(max(violations), abs=1e-12)
            assert score.extra["mean_violation"] == pytest.approx(sum(violations) / len(violations), abs=1e-12)
        assert seen

    def test_a_classifier_that_is_right_more_often_than_not_in_every_group_is_not_touched(self):
        plain, folded = intersectional(), intersectional(fold_errors=True)
        point = torch.zeros(plain.form.dimension, dtype=torch.float64)
        point[-1] = -5.0  # everybody negative
        assert plain.score(point, "train") == folded.score(point, "train")

    def test_only_reports_change(self):
        plain, folded = intersectional(), intersectional(fold_errors=True)
        point = self.all_positive(plain)[None]
        for part in ("surrogates", "violations"):
            first, second = (getattr(one.form.constraints, part)(point, slice(None)) for one in (plain, folded))
            first, second = (found[0] if isinstance(found, tuple) else found for found in (first, second))
            assert torch.equal(first, second)

    def test_missed_positives_of_noisy_groups(self):
        """A classifier that finds nobody misses all positives of every group: folded or not, the rates are equal."""
        plain, folded = noisy(), noisy(fold_errors=True)
        nobody = -self.all_positive(plain)
        assert plain.score(nobody, "test").max_violation == folded.score(nobody, "test").max_violation
        point = -point_of(plain)
        assert folded.score(point, "train").error == pytest.approx(1.0 - plain.score(point, "train").error)
