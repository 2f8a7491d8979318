"""Losses of rows that are loaded in pieces equal those of rows in memory."""

import pytest
import torch

from drobench.objective.losses import CrossEntropyLoss, LogisticLoss, SigmoidLoss
from drobench.objective.predictor import LinearPredictor, ModelConfig, build_predictor
from drobench.objective.streamed_losses import StreamedLosses

ROWS, WIDTH = 23, 4


def signs(generator):
    return torch.where(torch.randn(ROWS, generator=generator) > 0, 1.0, -1.0).to(torch.float64)


KINDS = {
    "logistic": (LinearPredictor(WIDTH, True), LogisticLoss()),
    "sigmoid": (LinearPredictor(WIDTH, False), SigmoidLoss()),
    "classes": (LinearPredictor(WIDTH, True, 3), CrossEntropyLoss()),
    "network": (build_predictor(ModelConfig("mlp", hidden=[5]), WIDTH), LogisticLoss()),
}
DRAWS = [torch.tensor([3, 22, 3, 0]), torch.tensor([9, 1, 1, 20, 13, 2, 22, 0, 7, 5, 11])]
INDICES = [slice(None), slice(0, 0), slice(4, 19), slice(20, 30), slice(1, 22, 3), *DRAWS]


@pytest.fixture(params=KINDS)
def pair(request):
    """The losses of all rows, and the same with at most five rows loaded at a time; and what was loaded."""
    predictor, loss = KINDS[request.param]
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 3, (ROWS,), generator=generator) if predictor.outputs > 1 else signs(generator)
    loaded = []

    def load(index):
        loaded.append(features[index].shape[0])
        return predictor.losses(features[index], targets[index], loss)

    return predictor.losses(features, targets, loss), StreamedLosses(load, ROWS, at_once=5), loaded


def points(losses, count):
    return torch.randn(count, losses.dimension, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_values_and_pullbacks_are_the_same(pair):
    for index in INDICES:
        whole, streamed, _ = pair
        at = points(whole, 2)
        values, pullback = whole.linearize(at, index)
        found, pull = streamed.linearize(at, index)
        torch.testing.assert_close(found, values, rtol=1e-13, atol=1e-13)
        cotangents = torch.randn(2, 3, values.shape[1], generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        torch.testing.assert_close(pull(cotangents), pullback(cotangents), rtol=1e-12, atol=1e-12)


def test_differences_and_means_are_the_same(pair):
    for index in INDICES:
        whole, streamed, _ = pair
        at = points(whole, 2)
        values, difference = whole.linearize_difference(at, index)
        found, other = streamed.linearize_difference(at, index)
        torch.testing.assert_close(found, values, rtol=1e-13, atol=1e-13)
        cotangents = torch.ones(2, 1, values.shape[1], dtype=torch.float64)
        torch.testing.assert_close(other(cotangents, 0.5), difference(cotangents, 0.5), rtol=1e-12, atol=1e-12)
        same = {"rtol": 1e-12, "atol": 1e-12}
        torch.testing.assert_close(
            streamed.mean_gradient_difference(at, index), whole.mean_gradient_difference(at, index), **same
        )
        torch.testing.assert_close(streamed.mean(at, index), whole.mean(at, index), **same)


def test_what_all_rows_have_in_common_is_the_same(pair):
    whole, streamed, _ = pair
    assert (streamed.samples, streamed.dimension, streamed.convex) == (whole.samples, whole.dimension, whole.convex)
    assert torch.equal(streamed.origin(), whole.origin())
    assert streamed.origin().dtype == torch.float64
    (point,) = points(whole, 1)
    torch.testing.assert_close(streamed.values(point), whole.values(point), rtol=1e-13, atol=1e-13)


def test_a_walk_never_loads_more_than_a_piece_and_a_draw_only_its_rows(pair):
    whole, streamed, loaded = pair
    at = points(whole, 1)
    loaded.clear()
    _, pullback = streamed.linearize(at, slice(2, 20))
    assert loaded == [5, 5, 5, 3]
    pullback(torch.ones(1, 1, 18, dtype=torch.float64))
    assert loaded == [5, 5, 5, 3] * 2
    loaded.clear()
    streamed.linearize_difference(points(whole, 2), torch.tensor([8, 1]))
    assert loaded == [2]
