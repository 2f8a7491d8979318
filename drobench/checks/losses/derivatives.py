"""Whether slopes, bends and their bound are those of the values."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from drobench.checks.losses.subject import CLASSES, ROWS, LossSubject, Sample, noise, size_of
from drobench.objective.predictor import LinearPredictor

_STEP = 1e-6
# Relative to the largest derivative of the sample.
_CLOSE = 1e-4
_ROUNDING = 1e-14
_COLUMNS = 4


class LossDerivativeChecks(LossSubject):
    """Each derivative against differences of the one before."""

    def test_slopes_are_those_of_finite_differences(self) -> None:
        """Slopes against differences of losses, and against what automatic differentiation makes of them."""
        loss, sample = self.loss(), self.ordinary(0)
        slopes = loss.value_and_slope(*sample)[1]
        by_score = slopes.unbind(-1) if loss.scores_each_class else (slopes,)
        for number, slope in enumerate(by_score):
            self._compare(lambda at: loss.value_and_slope(at, sample.targets)[0], sample, number, slope, "slopes")
        leaf = sample.scores.clone().requires_grad_(True)
        with torch.enable_grad():
            values = loss.value_and_slope(leaf, sample.targets)[0]
            found = torch.autograd.grad(values.sum(), leaf)[0] if values.requires_grad else torch.zeros_like(slopes)
        self.expect(
            torch.allclose(found, slopes, rtol=1e-6, atol=1e-9 + 1e-6 * float(slopes.abs().max())),
            "losses that torch can differentiate, with the same slopes, which networks need for second derivatives",
            f"derivatives that differ by {float((found - slopes).abs().max()):.3g}",
            "compute the losses by operations of torch, and detach nothing",
        )

    def test_bends_are_those_of_finite_differences(self) -> None:
        """Second derivatives against differences of slopes."""
        loss, sample = self.loss(), self.ordinary(0)

        def slopes(at: Tensor) -> Tensor:
            return loss.value_and_slope(at, sample.targets)[1]

        if not loss.scores_each_class:
            self._compare(slopes, sample, 0, loss.score_bend(*sample), "bends")
            return
        bends = loss.bends(*sample)
        self.expect(
            bends.shape == (ROWS, CLASSES, CLASSES),
            f"bends of shape {(ROWS, CLASSES, CLASSES)}",
            f"{tuple(bends.shape)}",
            "return one matrix a row",
        )
        for number in range(CLASSES):
            self._compare(slopes, sample, number, bends[..., number], "bends")

    def test_no_bend_is_above_its_bound(self) -> None:
        """`largest_bend` bounds how fast slopes change, between scores near and far, across kinks too."""
        loss = self.loss()
        if math.isinf(loss.largest_bend):
            return
        one, other, targets = self.pairs()
        first, second = (loss.value_and_slope(scores, targets)[1] for scores in (one, other))
        changes, distances = size_of(first - second), size_of(one - other)
        rounding = 1e-12 * (size_of(first) + size_of(second))
        excess = changes - rounding - loss.largest_bend * (1.0 + 1e-6) * distances
        worst = int(excess.argmax())
        self.expect(
            bool((excess <= 0.0).all()),
            f"slopes that change by at most {loss.largest_bend:g}, `largest_bend`, times the distance of scores",
            f"a change by {float(changes[worst]):.6g} over a distance of {float(distances[worst]):.6g}",
            "state a larger bound, or infinity where the loss has kinks",
        )

    def test_linear_models_see_the_same_loss(self) -> None:
        """In closed form, losses, gradients, second derivatives and convexity are those of the loss."""
        loss = self.loss()
        predictor = LinearPredictor(_COLUMNS, True, CLASSES if loss.scores_each_class else 1)
        features, targets = noise(ROWS, _COLUMNS, seed=5), self.targets(ROWS, seed=6)
        losses, point = predictor.losses(features, targets, loss), noise(predictor.dimension, seed=7)
        leaf = point.clone().requires_grad_(True)
        with torch.enable_grad():
            scores = predictor.scores(leaf, features)
        expected, slopes = loss.value_and_slope(scores.detach(), targets)
        gradient = torch.autograd.grad(scores, leaf, slopes)[0] / ROWS
        found = losses.mean(point[None], slice(None))
        self.expect(
            losses.convex == loss.convex
            and torch.allclose(losses.values(point), expected, rtol=1e-9, atol=1e-12)
            and torch.allclose(found[1][0], gradient, rtol=1e-8, atol=1e-10),
            "the same losses and slopes from a linear model as from `value_and_slope`",
            "others",
            "let `of_margin` and `bend` of a margin loss say the same of margins as `value_and_slope` of scores",
        )
        vector, ones, zeros = noise(predictor.dimension, seed=8), expected.new_ones(ROWS), expected.new_zeros(ROWS)
        product = losses.hessian_product(point, slice(None), zeros, ones, vector)
        ends = [losses.mean((point + side * _STEP * vector)[None], slice(None))[1][0] for side in (1.0, -1.0)]
        differences = (ends[0] - ends[1]) * ROWS / (2.0 * _STEP)
        scale = float(differences.abs().max()) + float(gradient.abs().max())
        self.expect(
            torch.allclose(product, differences, rtol=0.0, atol=_CLOSE * scale + 1e-6),
            "second derivatives of a linear model that agree with differences of its gradients",
            f"ones that differ by {float((product - differences).abs().max()):.3g}",
            "correct `bend`, `score_bend` or `bends`",
        )

    def _compare(
        self, function: Callable[[Tensor], Tensor], sample: Sample, number: int, derivative: Tensor, what: str
    ) -> None:
        """Compare derivatives by one score of each row with central differences, but for rows that are at a kink."""
        step = torch.zeros_like(sample.scores)
        step[(..., number) if step.dim() > 1 else ...] = _STEP
        above, here, below = (function(sample.scores + side * step) for side in (1.0, 0.0, -1.0))
        central, right, left = (above - below) / (2.0 * _STEP), (above - here) / _STEP, (here - below) / _STEP
        scale = float(derivative.abs().max()) + float(central.abs().max())
        allowed = _CLOSE * scale + _ROUNDING * here.abs() / _STEP + 1e-12
        smooth = (right - left).abs() <= 10.0 * allowed
        off = torch.where(smooth, (central - derivative).abs() - allowed, -1.0)
        worst = off.flatten().argmax()
        self.expect(
            int(smooth.sum()) * 2 >= smooth.numel(),
            f"{what} to be tested against differences at most of {smooth.numel()} ordinary scores",
            f"kinks at {int((~smooth).sum())} of them",
            f"correct what the {what} are derivatives of, or smooth the loss on a wider scale",
        )
        self.expect(
            bool((off <= 0.0).all()),
            f"{what} that agree with finite differences, {float(central.flatten()[worst]):.6g} at one score",
            f"{float(derivative.flatten()[worst]):.6g}",
            f"correct how the {what} are computed",
        )
