"""The change of the means between two points, which has fast ways of its own: the difference of two estimates."""

import pytest
import torch

from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty, Chi2Variance, CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum, RobustRisk
from drobench.objective.losses import (
    CrossEntropyLoss,
    LinearMarginLosses,
    LinearScoreLosses,
    LogisticLoss,
    Margin,
    SigmoidLoss,
)
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows
from drobench.objective.wasserstein import WassersteinRisk
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route

SAMPLES, FEATURES = 30, 4
DIVERGENCES = [KLPenalty(0.3), KLBall(0.3), Chi2Variance(2.0), Chi2Penalty(0.4), Chi2Ball(0.2), CVaR(0.3)]


def noise(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def margin_losses(loss):
    return LinearMarginLosses(noise(SAMPLES, FEATURES), noise(SAMPLES).sign(), loss)


def score_losses():
    return LinearScoreLosses(noise(SAMPLES, FEATURES), 3, torch.arange(SAMPLES) % 3, CrossEntropyLoss())


def forms():
    regularizer = ElasticNet(0.0, 0.1)
    for ambiguity in DIVERGENCES:
        yield f"{ambiguity}", RobustRisk(margin_losses(LogisticLoss()), ambiguity, regularizer), {}
    yield "sigmoid", RobustRisk(margin_losses(SigmoidLoss()), KLPenalty(0.3), regularizer), {}
    yield "classes", RobustRisk(score_losses(), KLPenalty(0.3), regularizer), {}
    yield "mean", FiniteSum(margin_losses(LogisticLoss()), regularizer), {}
    for ways in ("reduced", "literal"):
        risk = WassersteinRisk(margin_losses(Margin()), 0.1, 1.0, "l2", ElasticNet(0.0, 0.1))
        yield f"transport_{ways}", risk, {"wasserstein": ways}


@pytest.mark.parametrize(("form", "options"), [pytest.param(form, opts, id=name) for name, form, opts in forms()])
def test_the_change_is_the_difference_of_two_estimates(form, options):
    for drawn in ["few", "all", "none"]:
        route = find_route(form, (Composite,), ReformulationConfig(**options))
        composite, point = route.form, route.lift(0.3 * noise(form.dimension))
        points = torch.stack([point, point + 0.05 * noise(point.numel()).abs()])
        index = {"few": torch.tensor([1, 4, 9, 20]), "all": slice(None), "none": torch.tensor([], dtype=torch.int64)}[
            drawn
        ]
        rows = Rows(index if composite.samples else None, index if composite.constraints else None, covered=0.1)
        shift = composite.estimate(points, composite.everything(), None).shift
        found = composite.change(points, rows, shift)
        expected = Composite.change(composite, points, rows, shift)
        for name in ("inner_value", "inner_jacobian", "loss_gradient", "inner_floor", "shift"):
            ours, theirs = getattr(found, name), getattr(expected, name)
            assert (ours is None) == (theirs is None) == (name == "loss_gradient" and not composite.has_losses)
            if isinstance(ours, list):
                assert ours == pytest.approx(theirs, rel=1e-10, abs=1e-14)
            elif ours is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-14)
        moved = [part for part in (found.inner_jacobian, found.loss_gradient) if part is not None and part.numel()]
        assert moved
        assert all(bool(part.abs().max() > 1e-6) for part in moved) == (drawn != "none")
