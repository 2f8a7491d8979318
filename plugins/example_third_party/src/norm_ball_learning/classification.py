"""`ball_classification`: robust logistic regression whose parameters stay in a ball.

    minimise  gamma ln mean exp(f_i(x) / gamma) + (l2 / 2) |x|^2   subject to  |x|_2 <= radius

The first term is the worst case over reweightings of the samples at a KL price `gamma`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench import ProblemEntry
from drobench.data.dataset import Dataset, Split
from drobench.errors import require_positive
from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LogisticLoss, Losses
from drobench.objective.predictor import Model, build_predictor
from drobench.problem.metrics import SplitScore, binary_errors
from drobench.problem.problem import Problem
from norm_ball_learning.ball import RidgeOnBall


@dataclass
class BallClassificationConfig:
    """Settings of classification over a ball."""

    radius: float = 1.0
    gamma: float = 1.0
    l2: float = 1e-3
    """Above zero, so that the optimum can be certified."""

    def __post_init__(self) -> None:
        require_positive(self, "radius", "gamma", "l2")


class BallClassification(Problem):
    """See the module's text."""

    def __init__(self, config: BallClassificationConfig, dataset: Dataset, model: Model) -> None:
        self.splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
        self.predictor = build_predictor(model, dataset.input_shape)
        ball = RidgeOnBall(config.radius, config.l2)
        self.form = RobustRisk(self._losses(dataset.train), KLPenalty(config.gamma), ball)

    def start(self, generator: torch.Generator) -> Tensor:
        """Return the predictor's start, pulled into the ball."""
        return self.form.regularizer.prox(super().start(generator), 0.0)

    @torch.no_grad()
    def score(self, point: Tensor, split: str) -> SplitScore | None:
        rows = self.splits[split]
        if rows is None:
            return None
        errors = binary_errors(self.predictor.scores(point, rows.features), _signs(rows))
        worst_case = self.form.ambiguity.worst_case(self._losses(rows).values(point))
        return SplitScore(error=float(errors.mean()), extra={"worst_case_risk": float(worst_case)})

    def _losses(self, rows: Split) -> Losses:
        return self.predictor.losses(rows.features, _signs(rows), LogisticLoss())


def _signs(rows: Split) -> Tensor:
    return (2 * rows.labels - 1).to(rows.features.dtype)


def entry() -> ProblemEntry:
    """Return the catalogue entry."""
    return ProblemEntry(
        name="ball_classification",
        summary="KL-robust logistic regression with parameters in a Euclidean ball.",
        reference="Jaggi (ICML 2013) for learning over balls; Hu, Hong (2013) for the KL price",
        config=BallClassificationConfig,
        factory=BallClassification,
        needs=frozenset({"binary_labels"}),
    )
