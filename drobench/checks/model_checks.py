"""What every model promises."""

import math
from typing import ClassVar, NoReturn

import pytest
import torch
from torch import Tensor

from drobench.checks.subject import Checks
from drobench.errors import DrobenchError
from drobench.objective.losses import CrossEntropyLoss, LogisticLoss, Losses, ScoreLoss
from drobench.objective.predictor import LinearPredictor, Predictor, build_predictor
from drobench.registry import ModelEntry
from drobench.registry.models import PluginModel

_ROWS = 6
_CLASSES = 3
_STEP = 1e-6
_FLAT, _IMAGE = (5,), (2, 8, 8)
# What a model may need of data without a word about the shape of a row.
_NO_SHAPE = frozenset({"labels", "binary_labels", "targets", "groups", "attributes", "queries", "relevance"})


class ModelChecks(Checks):
    """One test for each thing that a model promises.

        class TestMyModel(ModelChecks):
            name = "my_model"

    Attributes:
        shape: Of one row, where the usual ones (5 numbers; images of two channels, 8 by 8) will not do.
    """

    kind: ClassVar[str] = "model"
    subject: ModelEntry

    shape: tuple[int, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of a row that the model is tried on."""
        if self.shape:
            return self.shape
        shaping = self.subject.needs - _NO_SHAPE
        if shaping - {"images"}:
            needs = ", ".join(sorted(shaping))
            pytest.skip(f"rows that are {needs} have no usual shape: give the checks a `shape`, or a `--dataset`")
        return _IMAGE if shaping else _FLAT

    def predictor(self, classes: int = 2) -> Predictor:
        """Return a predictor for so many classes."""
        try:
            return build_predictor(PluginModel(self.subject, self.config), self.input_shape, classes)
        except DrobenchError as error:
            self._unusable(error)

    def start(self, predictor: Predictor, seed: int = 5) -> Tensor:
        """Return initial parameters."""
        try:
            return predictor.start(torch.Generator().manual_seed(seed))
        except DrobenchError as error:
            self._unusable(error)

    def _unusable(self, error: DrobenchError) -> NoReturn:
        """Fail once, whatever the number of classes is at which the model turns out to be of no use."""
        expected = f"a model for rows of shape {self.input_shape}, two classes and more"
        self.fail_all(self.message(expected, str(error), "correct it"), key="the model itself")

    def test_is_a_function_of_parameters_and_one_row(self) -> None:
        """It can be made, for two classes and more; no call changes it, and no row changes the score of another."""
        for classes in (2, _CLASSES):
            predictor = self.predictor(classes)
            scores = predictor.scores(self.start(predictor), self._rows())
            expected = (_ROWS,) if classes == 2 else (_ROWS, classes)
            self.expect(
                tuple(scores.shape) == expected,
                f"scores of shape {expected}",
                f"{tuple(scores.shape)}",
                "return one column for each output that the factory is asked for",
            )

    def test_start_is_seeded_and_finite(self) -> None:
        """One seed gives one start, each time that the model is made; another gives another, unless it is constant."""
        before = torch.get_rng_state()
        first, second = (self.start(self.predictor()) for _ in range(2))
        self.expect(
            torch.equal(before, torch.get_rng_state()),
            "torch's own generator left as it was",
            "another state",
            "draw in the module's constructor, or from the generator that `start` is given",
        )
        self.expect(
            torch.equal(first, second),
            "the same start from the same seed",
            "two different ones",
            "draw with torch in the module's constructor, or from the generator that `start` is given",
        )
        if not bool((first == first[0]).all()):
            self.expect(
                not torch.equal(first, self.start(self.predictor(), seed=6)),
                "another start from another seed, since it is random",
                "the same",
                "draw with torch in the module's constructor, or from the generator that `start` is given",
            )

    def test_gradients_are_those_of_finite_differences(self) -> None:
        """The scores are differentiable functions of the parameters, for one score and for several."""
        for classes in (2, _CLASSES):
            predictor = self.predictor(classes)
            point = self.start(predictor) + 0.1 * _noise(predictor.dimension, seed=1)
            losses = self._losses(predictor, classes)
            gradient = losses.mean(point[None], slice(None))[1][0]
            self.expect(
                bool(gradient.isfinite().all()),
                "finite gradients near the start",
                "NaN or infinity",
                "correct the module",
            )
            for seed in (2, 3):
                direction = torch.nn.functional.normalize(_noise(predictor.dimension, seed), dim=0)
                sides = [losses.values(point + side * _STEP * direction).mean() for side in (1.0, -1.0)]
                difference, slope = float(sides[0] - sides[1]) / (2.0 * _STEP), float(gradient.dot(direction))
                self.expect(
                    math.isclose(difference, slope, rel_tol=1e-3, abs_tol=1e-6),
                    f"the slope of the loss along a direction, by differences {difference:.6g}",
                    f"{slope:.6g} by automatic differentiation",
                    "use operations that torch can differentiate, and detach nothing",
                )

    def test_every_parameter_matters(self) -> None:
        """Each piece of the parameters changes some score; one that does not is a mistake in `forward`."""
        predictor = self.predictor(_CLASSES)
        point = self.start(predictor) + 0.1 * _noise(predictor.dimension, seed=1)
        gradient = self._losses(predictor, _CLASSES).mean(point[None], slice(None))[1][0]
        sizes = getattr(predictor, "shapes", {"weight": (predictor.dimension,)})
        pieces = gradient.split([math.prod(shape) for shape in sizes.values()])
        idle = [name for name, piece in zip(sizes, pieces, strict=True) if not bool(piece.any())]
        self.expect(
            not idle,
            "scores that depend on every parameter",
            f"none that depends on {', '.join(idle)}",
            "use it in `forward`, leave it out, or set `requires_grad=False` if it is a constant",
        )

    def test_single_precision_gives_the_same_scores(self) -> None:
        """Scores in single precision are those in double precision, rounded."""
        predictor, rows = self.predictor(_CLASSES), self._rows()
        point = self.start(predictor)
        try:
            single = predictor.scores(point.to(torch.float32), rows.to(torch.float32))
        except RuntimeError as error:  # what torch raises where precisions meet
            self.fail("scores in the precision of the rows", str(error), "create tensors like the rows, or as buffers")
        double = predictor.scores(point, rows)
        self.expect(
            single.dtype == torch.float32 and torch.allclose(single.double(), double, rtol=1e-3, atol=1e-3),
            "the scores of double precision, rounded",
            f"{single.dtype}, off by {float((single.double() - double).abs().max()):.3g}",
            "create tensors like the rows, or as buffers",
        )

    def test_learning_lowers_the_loss(self) -> None:
        """A few small steps against the gradient do."""
        predictor = self.predictor()
        losses, point = self._losses(predictor, 2), self.start(predictor)
        before, step = float(losses.values(point).mean()), 0.1
        for _ in range(20):
            point = point - step * losses.mean(point[None], slice(None))[1][0]
        after = float(losses.values(point).mean())
        self.expect(
            after < before,
            f"a loss below {before:.6g} after 20 steps of {step:g}",
            f"{after:.6g}",
            "let the scores be able to tell rows apart",
        )

    def test_linear_models_keep_their_closed_forms(self) -> None:
        """A model that is linear in its parameters and rows is one `torch.nn.Linear`, so that convexity is known."""
        predictor = self.predictor()
        if isinstance(predictor, LinearPredictor):
            return
        points, rows = _noise(2 * predictor.dimension, seed=4).view(2, -1), self._rows()
        zero = predictor.scores(torch.zeros_like(points[0]), rows)
        one, other, both = (predictor.scores(point, rows) - zero for point in (*points, points.sum(dim=0)))
        self.expect(
            not torch.allclose(one + other, both, rtol=1e-9, atol=1e-9),
            "scores that are not linear in the parameters, or one torch.nn.Linear",
            "a linear model of other modules, whose convex problems would count as not convex",
            "return a torch.nn.Linear alone",
        )

    def _rows(self) -> Tensor:
        return _noise(_ROWS * math.prod(self.input_shape), seed=0).view(_ROWS, -1)

    def _losses(self, predictor: Predictor, classes: int) -> Losses:
        labels = torch.arange(_ROWS) % classes
        rows = self._rows()
        loss: ScoreLoss = LogisticLoss() if classes == 2 else CrossEntropyLoss()
        targets = (2 * labels - 1).to(rows.dtype) if classes == 2 else labels
        return predictor.losses(rows, targets, loss)


def _noise(size: int, seed: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
