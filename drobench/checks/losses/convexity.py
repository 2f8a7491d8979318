"""Whether what a loss says of its convexity is true: certificates of optima are built on it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from drobench.checks.losses.subject import LossSubject, inner, noise
from drobench.objective.score_losses import ScoreLoss

_ROUNDING = 1e-10
_CLEARLY = 1e-6
_NEAR = 1e-6
_KINK = 1e-3
_SHARES = (0.0, 0.3, 0.7, 1.0)


class LossConvexityChecks(LossSubject):
    """Midpoints, slopes, conjugates, and itself as an expression of cvxpy."""

    def test_convexity_is_what_is_claimed(self) -> None:
        """No loss between two scores is above the line between theirs, and none is below a tangent, if it is convex."""
        loss = self.loss()
        lines, tangents = self._above_lines(loss), self._below_tangents(loss)
        if not loss.convex:
            self.expect(
                max(lines, tangents) > _CLEARLY,
                "some score at which a loss that says it is not convex is not",
                "none, among thousands",
                "set `convex = True`, without which no optimum is certified; or skip this check with the reason",
            )
            return
        self.expect(
            lines <= _ROUNDING,
            "no loss above the line between two others, since it says that it is convex",
            f"one that is above by {lines:.3g} of their size",
            "set `convex = False`, or correct `value_and_slope`: optima would be certified that are none",
        )
        self.expect(
            tangents <= _ROUNDING,
            "no loss below a tangent, since it says that it is convex",
            f"one that is below by {tangents:.3g} of their size",
            "correct the slopes: at a kink they must be between those of both sides",
        )

    def test_slopes_are_within_their_range(self) -> None:
        """`slope_range` has the slope between its ends, in their order."""
        loss = self.loss()
        self._skip_unless_single(loss, "a range of slopes is asked of losses of one score")
        for scores, targets in (self.ordinary(0), self.hard()):
            slopes = loss.value_and_slope(scores, targets)[1]
            low, high = loss.slope_range(scores, targets, _NEAR)
            slack = _ROUNDING * (1.0 + slopes.abs())
            self.expect(
                bool((low <= slopes + slack).all() and (slopes <= high + slack).all()),
                "each slope between the ends of `slope_range`",
                "one outside of them",
                "return the least and the largest slope within the distance that is given",
            )

    def test_conjugate_is_the_largest_difference(self) -> None:
        """`conjugate` against a search over scores, for slopes of ordinary scores and for those within kinks."""
        loss = self.loss()
        self._skip_unless_single(loss, "a conjugate is asked of losses of one score")
        scores, targets = self.ordinary(0)
        if loss.conjugate(loss.value_and_slope(scores, targets)[1], targets) is None:
            pytest.skip("it brings no conjugate: optima are certified by strong convexity alone")
        self._compare_conjugates(loss, scores, loss.value_and_slope(scores, targets)[1], targets)
        scores, targets = self._kinked(loss)
        if scores.numel():
            low, high = loss.slope_range(scores, targets, _NEAR)
            for share in _SHARES:
                self._compare_conjugates(loss, scores, low + share * (high - low), targets)

    def test_expression_has_the_same_values(self) -> None:
        """As an expression of cvxpy it is convex by its rules, and has the same values."""
        import cvxpy as cp  # noqa: PLC0415  # slow to load

        loss = self.loss()
        self._skip_unless_single(loss, "an expression is asked of losses of one score")
        scores, targets = self.ordinary(0)
        variable = cp.Variable(len(scores))
        expression: Any = loss.expression(variable, targets.numpy())
        if expression is None:
            pytest.skip("it brings no expression: references solve it as a smooth loss, or not at all")
        self.expect(
            expression.is_convex() and expression.shape == (len(scores),),
            f"an expression of shape ({len(scores)},) that is convex by the rules of cvxpy",
            f"shape {expression.shape}, convex: {expression.is_convex()}",
            "write it with atoms of cvxpy, one loss for each score",
        )
        for scores, targets in (self.ordinary(0), self._moderate()):
            found = torch.as_tensor(loss.expression(cp.Constant(scores.numpy()), targets.numpy()).value)
            values = loss.value_and_slope(scores, targets)[0]
            off = float(((found - values).abs() / (1.0 + values.abs())).max())
            self.expect(
                off <= 1e-7,
                "an expression with the values of the loss",
                f"values that differ by {off:.3g} of their size",
                "correct `expression`, or `value_and_slope`",
            )

    def _skip_unless_single(self, loss: ScoreLoss, reason: str) -> None:
        if loss.scores_each_class:
            pytest.skip(reason)
        if not loss.convex:
            pytest.skip("it is not convex")

    def _above_lines(self, loss: ScoreLoss) -> float:
        """Return by how much, relative to their size, a loss is above the line between two others at most."""
        one, other, targets = self.pairs()
        first, second = (loss.value_and_slope(scores, targets)[0] for scores in (one, other))
        worst = 0.0
        for share in (0.5, 0.1, 0.9):
            between = loss.value_and_slope(share * one + (1.0 - share) * other, targets)[0]
            excess = between - share * first - (1.0 - share) * second
            worst = max(worst, float((excess / (1.0 + first.abs() + second.abs())).max()))
        return worst

    def _below_tangents(self, loss: ScoreLoss) -> float:
        one, other, targets = self.pairs()
        first, slopes = loss.value_and_slope(one, targets)
        second = loss.value_and_slope(other, targets)[0]
        rise = inner(slopes, other - one)
        size = 1.0 + first.abs() + second.abs() + inner(slopes.abs(), one.abs() + other.abs())
        return float(((first + rise - second) / size).max())

    def _kinked(self, loss: ScoreLoss) -> tuple[Tensor, Tensor]:
        """Return those of the hard scores at which the slope jumps."""
        scores, targets = self._moderate()
        low, high = loss.slope_range(scores, targets, _NEAR)
        # A jump is one at any distance, a bend is less the nearer one looks.
        nearer_low, nearer_high = loss.slope_range(scores, targets, 1e-3 * _NEAR)
        at_kink = (high - low > _KINK) & (nearer_high - nearer_low > 0.5 * (high - low))
        return scores[at_kink], targets[at_kink]

    def _moderate(self) -> tuple[Tensor, Tensor]:
        scores, targets = self.hard()
        # Scores at which something happens, neither so small nor so large that the others are lost beside them.
        kept = (scores.abs() <= 50.0) & (((scores - targets).abs() >= 1e-6) | (scores == targets))
        return scores[kept], targets[kept]

    def _compare_conjugates(self, loss: ScoreLoss, scores: Tensor, slopes: Tensor, targets: Tensor) -> None:
        """Compare with `u s - l(s)`, which is largest at the score of the slope, and larger at no other."""
        conjugates = loss.conjugate(slopes, targets)
        assert conjugates is not None
        attained = slopes * scores - loss.value_and_slope(scores, targets)[0]
        others = torch.cat([torch.linspace(-40.0, 40.0, 401, dtype=torch.float64), 3.0 * noise(200, seed=9)])[:, None]
        differences = slopes * others - loss.value_and_slope(others.expand(-1, len(scores)), targets)[0]
        largest = torch.maximum(attained, differences.amax(dim=0))
        size = 1.0 + largest.abs() + (slopes * scores).abs()
        off = ((conjugates - largest) / size).abs()
        worst = int(off.argmax()) if bool(off.isfinite().all()) else int((~off.isfinite()).int().argmax())
        self.expect(
            bool((off <= 1e-7).all()),
            f"the conjugate at the slope {float(slopes[worst]):.6g} to be the largest `u s - l(s)`, "
            f"{float(largest[worst]):.9g}",
            f"{float(conjugates[worst]):.9g}",
            "correct `conjugate`, or return None: a conjugate that is too small certifies what is no optimum",
        )
