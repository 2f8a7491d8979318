"""Second derivatives of losses by their scores: closed forms against automatic differentiation."""

import pytest
import torch

from drobench.objective.score_losses import (
    CrossEntropyLoss,
    LogisticLoss,
    Margin,
    MarginLoss,
    ScoreLoss,
    SigmoidLoss,
    smooth_hinge,
    smooth_hinge_bend,
)


class Hinge(MarginLoss):
    """Straight pieces, whose slopes are constants."""

    convex = True

    def of_margin(self, margins):
        values = (1.0 - margins).clamp(min=0.0)
        return values, -(values > 0).to(margins.dtype)


@pytest.mark.parametrize("loss", [LogisticLoss(), SigmoidLoss(), Margin()])
def test_bends_of_margins(random_points, loss):
    margins = 3.0 * random_points(0, 50)
    bend = loss.bend(margins)
    torch.testing.assert_close(bend, MarginLoss.bend(loss, margins))
    step = 1e-5
    slopes = [loss.of_margin(margins + side)[1] for side in (step, -step)]
    torch.testing.assert_close(bend, (slopes[0] - slopes[1]) / (2.0 * step), rtol=1e-6, atol=1e-9)


def test_straight_pieces_do_not_bend(random_points):
    assert not bool(Hinge().bend(random_points(0, 20)).any())


def test_bends_of_several_scores(random_points):
    scores, targets = random_points(1, 20, 5), torch.arange(20) % 5
    loss = CrossEntropyLoss()
    torch.testing.assert_close(loss.bends(scores, targets), ScoreLoss.bends(loss, scores, targets))


def test_the_bend_of_the_smoothed_hinge(random_points):
    values, step = random_points(2, 30), 1e-6
    slopes = [smooth_hinge(values + side, 0.3)[1] for side in (step, -step)]
    torch.testing.assert_close(
        smooth_hinge_bend(values, 0.3), (slopes[0] - slopes[1]) / (2.0 * step), rtol=1e-6, atol=1e-8
    )


class CrammerSinger(ScoreLoss):
    """Straight pieces of several scores."""

    convex = True
    scores_each_class = True

    def value_and_slope(self, scores, targets):
        chosen = torch.nn.functional.one_hot(targets, scores.shape[-1]).to(scores.dtype)
        violated = 1.0 - chosen + scores - (scores * chosen).sum(dim=-1, keepdim=True)
        worst = torch.nn.functional.one_hot(violated.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
        return violated.amax(dim=-1), worst - chosen


def test_straight_pieces_of_several_scores_do_not_bend(random_points):
    scores, targets = random_points(3, 12, 4), torch.arange(12) % 4
    bends = CrammerSinger().bends(scores, targets)
    assert bends.shape == (12, 4, 4)
    assert not bool(bends.any())
