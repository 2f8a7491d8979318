"""Whether a loss is one number for each row, whatever the scores, and whatever surrounds them."""

import copy
import dataclasses
import math
from typing import Any

import pytest
import torch

from drobench.checks.losses.subject import LossSubject
from drobench.checks.snapshots import snapshot
from drobench.errors import DrobenchError
from drobench.objective.score_losses import ScoreLoss

_SINGLE = 1e-4
_NO_SETTINGS = (math.nan, math.inf, -math.inf, -1.0, 0.0)


class LossValueChecks(LossSubject):
    """Numbers, finite ones, of the rows alone."""

    def test_says_what_it_is(self) -> None:
        """It fits its task, and `convex` and `largest_bend` are there."""
        loss = self.loss()
        self.expect(
            self.fits_its_task(loss),
            "one score a row and targets that are numbers, since its task is regression",
            "a loss of signs or of classes",
            "set `task` of the entry to `classification`, or derive the loss from ScoreLoss",
        )
        convex = getattr(loss, "convex", None)
        self.expect(
            isinstance(convex, bool),
            "`convex`, True or False",
            f"{convex!r}",
            "set it: whether the loss is convex in the scores",
        )
        bend = loss.largest_bend
        self.expect(
            isinstance(bend, int | float) and bend >= 0.0,
            "`largest_bend`, a number not below 0, which may be infinite",
            f"{bend!r}",
            "set it to a bound on the second derivatives, or leave it out",
        )

    def test_losses_and_slopes_are_finite(self) -> None:
        """One loss a row and one slope a score, finite where scores tie, where kinks are, and far away."""
        loss = self.loss()
        for name, (scores, targets) in (("ordinary", self.ordinary(0)), ("hard", self.hard())):
            for points in (scores, torch.stack([scores, -scores])):
                values, slopes = self._called(loss, points, targets)
                shape = points.shape[:-1] if loss.scores_each_class else points.shape
                self.expect(
                    values.shape == shape and slopes.shape == points.shape,
                    f"losses of shape {tuple(shape)} and slopes of shape {tuple(points.shape)}",
                    f"{tuple(values.shape)} and {tuple(slopes.shape)}",
                    "take scores of any number of points: (rows,) and (points, rows), each with classes last if it "
                    "has several",
                )
                for what, found in (("losses", values), ("slopes", slopes)):
                    finite = found.isfinite()
                    worst = "" if bool(finite.all()) else f"{float(found[~finite][0])}"
                    self.expect(
                        not worst,
                        f"finite {what} at {name} scores",
                        f"{worst} with scores up to {float(points.abs().max()):g}",
                        "use logsumexp, softplus and the like, which do not overflow",
                    )

    def test_rows_stand_for_themselves(self) -> None:
        """A row's loss depends on its own score and target, not on the rows and points beside it."""
        loss = self.loss()
        scores, targets = self.ordinary(0)
        values, slopes = loss.value_and_slope(scores, targets)
        some = torch.tensor([5, 0, 17])
        few = loss.value_and_slope(scores[some], targets[some])
        both = loss.value_and_slope(torch.stack([scores, 2.0 * scores]), targets)
        for what, one, other in (
            ("a few rows", (values[some], slopes[some]), few),
            ("two points", (values, slopes), (both[0][0], both[1][0])),
        ):
            same = all(
                torch.allclose(mine, theirs, rtol=1e-9, atol=1e-12) for mine, theirs in zip(one, other, strict=True)
            )
            self.expect(
                same,
                f"the same losses and slopes for {what} as for all rows of one point",
                "others",
                "compute each row's loss from its own score and target: no mean, no sum over rows",
            )

    def test_arguments_and_loss_are_left_alone(self) -> None:
        """No call changes scores, targets or the loss itself, and two calls say the same."""
        loss = self.loss()
        scores, targets = self.ordinary(0)
        kept, before = (scores.clone(), targets.clone()), snapshot(vars(loss))
        first = loss.value_and_slope(scores, targets)
        second = loss.value_and_slope(copy.deepcopy(kept[0]), kept[1])
        self.expect(
            torch.equal(scores, kept[0]) and torch.equal(targets, kept[1]),
            "scores and targets as they were before the call",
            "others",
            "use no operation in place, such as `clamp_`, on what is handed in",
        )
        self.expect(
            snapshot(vars(loss)) == before and all(map(torch.equal, first, second)),
            "a loss that two calls leave as it is, with the same answers",
            "another state, or other answers",
            "keep nothing in `self` but settings, and draw nothing",
        )

    def test_single_precision_gives_the_same_losses(self) -> None:
        """Scores in single precision give losses and slopes in single precision: those of double precision, rounded."""
        loss = self.loss()
        scores, targets = self.ordinary(0)
        single = targets.to(torch.float32) if targets.is_floating_point() else targets
        for what, found, exact in zip(
            ("losses", "slopes"),
            self._called(loss, scores.to(torch.float32), single),
            loss.value_and_slope(scores, targets),
            strict=True,
        ):
            scale = 1.0 + float(exact.abs().max())
            close = found.dtype == torch.float32 and torch.allclose(found.double(), exact, rtol=0, atol=_SINGLE * scale)
            self.expect(
                close,
                f"{what} in torch.float32, those of double precision, rounded",
                f"{found.dtype}, off by {float((found.double() - exact).abs().max()):.3g}",
                "create tensors like the scores",
            )

    def test_settings_that_make_no_loss_are_refused(self) -> None:
        """A number that is no setting (not a number, infinite, negative, zero) is refused, or does no harm."""
        fields = [
            field.name
            for field in dataclasses.fields(self.config)
            if isinstance(getattr(self.config, field.name), float)
        ]
        scores, targets = self.ordinary(0)
        for name in fields:
            for number in _NO_SETTINGS:
                loss = self._with(name, number)
                if loss is None:
                    continue
                values, slopes = loss.value_and_slope(scores, targets)
                self.expect(
                    bool(values.isfinite().all() and slopes.isfinite().all()),
                    f"`{name}={number}` to be refused with a SettingError, or finite losses",
                    "losses or slopes that are not finite",
                    "check it in `__post_init__`, with `require_positive` of drobench.errors for example",
                )

    def _with(self, name: str, number: float) -> ScoreLoss | None:
        """Return the loss with one setting changed; `None` where that is refused."""
        try:
            loss: ScoreLoss = self.subject.factory(dataclasses.replace(self.config, **{name: number}))
        except DrobenchError:
            return None
        except Exception as error:  # a stranger's config or factory may raise anything, and that is what is wrong
            pytest.fail(
                f"loss {self.subject.name!r}: expected `{name}={number}` to be refused with a SettingError; found "
                f"{type(error).__name__}: {error}. To do: check it in `__post_init__`.",
                pytrace=False,
            )
        return loss

    def _called(self, loss: ScoreLoss, scores: Any, targets: Any) -> tuple[torch.Tensor, torch.Tensor]:
        try:
            values, slopes = loss.value_and_slope(scores, targets)
        except RuntimeError as error:  # what torch raises where shapes or precisions do not fit
            self.fail(
                f"losses of scores of shape {tuple(scores.shape)} in {scores.dtype}",
                str(error),
                "let `value_and_slope` take scores of any number of points, and create tensors like the scores",
            )
        return values, slopes
