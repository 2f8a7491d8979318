"""More than two classes: losses and gradients against torch, robust problems on digits, and errors with ties."""

import math

import pytest
import torch

from drobench.objective.ambiguity_sets import Chi2Penalty, CVaR, KLPenalty
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import CrossEntropyLoss, LinearScoreLosses
from drobench.objective.predictor import ModelConfig, build_predictor, predict_classes
from drobench.objective.regularizers import Zero
from drobench.problem.metrics import classification_errors

CLASSES = 4


@pytest.fixture
def labels():
    return torch.randint(0, CLASSES, (9,), generator=torch.Generator().manual_seed(3))


@pytest.fixture
def linear(random_points, labels):
    return LinearScoreLosses(random_points(0, 9, 3), CLASSES, labels, CrossEntropyLoss())


class TestCrossEntropy:
    @pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
    def test_value_and_slope_are_those_of_torch(self, scale, random_points, labels):
        scores = (scale * random_points(1, 2, 9, CLASSES)).requires_grad_(True)
        values, slopes = CrossEntropyLoss().value_and_slope(scores.detach(), labels)
        expected = torch.stack([torch.nn.functional.cross_entropy(s, labels, reduction="none") for s in scores])
        torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-12 * scale)
        (gradient,) = torch.autograd.grad(expected.sum(), scores)
        torch.testing.assert_close(slopes, gradient, rtol=1e-10, atol=1e-14)
        assert values.isfinite().all()

    def test_equal_scores_cost_the_logarithm_of_the_count(self, labels):
        values, slopes = CrossEntropyLoss().value_and_slope(torch.full((9, CLASSES), 7.0).double(), labels)
        torch.testing.assert_close(values, torch.full((9,), CLASSES).double().log())
        torch.testing.assert_close(slopes.sum(dim=-1), torch.zeros(9).double(), rtol=0, atol=1e-15)


class TestLinearScores:
    def test_value_and_pullback_are_those_of_automatic_differentiation(self, linear, random_points, labels):
        points = random_points(4, 2, CLASSES * 3)
        index = torch.tensor([5, 0, 7])
        cotangents = random_points(5, 2, 2, 3)
        values, pullback = linear.linearize(points, index)
        found = pullback(cotangents)
        for k in range(2):
            leaf = points[k].clone().requires_grad_(True)
            scores = linear.rows[index] @ leaf.reshape(CLASSES, 3).T
            expected = torch.nn.functional.cross_entropy(scores, labels[index], reduction="none")
            torch.testing.assert_close(values[k], expected.detach(), rtol=1e-12, atol=1e-13)
            for q in range(2):
                (gradient,) = torch.autograd.grad(expected @ cotangents[k, q], leaf, retain_graph=True)
                torch.testing.assert_close(found[k, q], gradient, rtol=1e-11, atol=1e-13)

    def test_shapes_and_origin(self, linear):
        assert (linear.samples, linear.dimension, linear.convex) == (9, 12, True)
        assert linear.origin().shape == (12,)
        assert linear.values(linear.origin()).tolist() == pytest.approx([math.log(4)] * 9, rel=1e-14)

    @pytest.mark.parametrize("ambiguity", [KLPenalty(0.3), Chi2Penalty(0.2), CVaR(0.4)], ids=str)
    def test_the_gradient_of_the_robust_risk(self, linear, ambiguity, random_points):
        form = RobustRisk(linear, ambiguity, Zero())
        point = random_points(6, 12)
        steps = 1e-6 * torch.eye(12).double()
        numeric = torch.stack([(form.value(point + s) - form.value(point - s)) / 2e-6 for s in steps])
        torch.testing.assert_close(form.smooth_gradient(point), numeric, rtol=0, atol=1e-7)


class TestPredictors:
    @pytest.mark.parametrize("config", [ModelConfig(), ModelConfig("mlp", hidden=[5, 4])], ids=["linear", "mlp"])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_losses_and_gradients_are_those_of_the_scores(self, config, intercept, random_points, labels):
        config.intercept = intercept
        predictor = build_predictor(config, 3, CLASSES)
        features = random_points(7, 9, 3)
        losses = predictor.losses(features, labels, CrossEntropyLoss())
        point = predictor.start(torch.Generator().manual_seed(0)) + 0.3 * random_points(8, predictor.dimension)
        leaf = point.clone().requires_grad_(True)
        scores = predictor.scores(leaf, features)
        assert scores.shape == (9, CLASSES)
        expected = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
        values, pullback = losses.linearize(point[None], slice(None))
        torch.testing.assert_close(values[0], expected.detach(), rtol=1e-12, atol=1e-13)
        cotangents = random_points(9, 2, 9)
        for q, found in enumerate(pullback(cotangents[None])[0]):
            (gradient,) = torch.autograd.grad(expected @ cotangents[q], leaf, retain_graph=True)
            torch.testing.assert_close(found, gradient, rtol=1e-10, atol=1e-13)
        assert torch.equal(predict_classes(scores.detach()), scores.argmax(dim=1))

    def test_two_classes_have_one_score(self, random_points):
        for config in (ModelConfig(), ModelConfig("mlp", hidden=[5])):
            predictor = build_predictor(config, 3, 2)
            point = predictor.start(torch.Generator().manual_seed(0))
            assert predictor.scores(point, random_points(10, 6, 3)).shape == (6,)


class TestErrors:
    def test_ties_share_the_chance(self):
        scores = torch.tensor(
            [[1.0, 2.0, 0.0], [2.0, 2.0, 0.0], [2.0, 2.0, 2.0], [2.0, 2.0, 0.0], [0.0, 1.0, 3.0]], dtype=torch.float64
        )
        right = torch.tensor([1, 0, 2, 2, 0])
        assert classification_errors(scores, right).tolist() == pytest.approx([0.0, 0.5, 2 / 3, 1.0, 1.0])

    def test_scores_that_are_no_numbers_are_errors(self):
        scores = torch.tensor([[1.0, float("nan"), 0.0], [float("inf"), 0.0, 0.0], [3.0, 1.0, 0.0]]).double()
        assert classification_errors(scores, torch.tensor([0, 0, 0])).tolist() == [1.0, 1.0, 0.0]

    def test_one_score_per_row_is_the_binary_case(self):
        scores = torch.tensor([0.5, -0.5, 0.0, float("nan")]).double()
        assert classification_errors(scores, torch.tensor([1, 1, 0, 1])).tolist() == [0.0, 1.0, 0.5, 1.0]
