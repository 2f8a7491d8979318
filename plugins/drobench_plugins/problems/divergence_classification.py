"""Distributionally robust classification: the adversary reweights samples, at a price or within a ball.

`kl_classification` minimises `r(x) + max over p of sum p_i f_i(x) - gamma KL(p || 1/m)`, that is
`r(x) + gamma ln mean exp(f_i(x) / gamma)`, with `r(x) = l1 |x|_1 + (l2 / 2) |x|_2^2` on all parameters.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.data.dataset import Dataset, Split
from drobench.errors import require_non_negative, require_one_of, require_positive
from drobench.objective.ambiguity_sets import AmbiguitySet, KLPenalty
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LogisticLoss, MarginLoss, SigmoidLoss
from drobench.objective.predictor import ModelConfig, build_predictor
from drobench.objective.regularizers import ElasticNet
from drobench.problem.metrics import SplitScore, binary_errors
from drobench.problem.problem import Problem
from drobench.registry import ProblemEntry

_LOSSES: dict[str, type[MarginLoss]] = {"logistic": LogisticLoss, "sigmoid": SigmoidLoss}


@dataclass
class KLClassificationConfig:
    """Settings of KL-robust classification."""

    gamma: float = 1.0
    """Price of the adversary's divergence: large is close to plain risk, small close to the worst sample."""
    l1: float = 0.0
    l2: float = 1e-3
    loss: str = "logistic"
    """`logistic`, or `sigmoid` (bounded, not convex)."""

    def __post_init__(self) -> None:
        require_positive(self, "gamma")
        require_non_negative(self, "l1", "l2")
        require_one_of(self, "loss", tuple(_LOSSES))


class DivergenceClassification(Problem):
    """Binary classification under an adversary that reweights the training samples."""

    form: RobustRisk

    def __init__(
        self,
        dataset: Dataset,
        model: ModelConfig,
        ambiguity: AmbiguitySet,
        loss: MarginLoss,
        regularizer: ElasticNet,
    ) -> None:
        self.dataset = dataset
        self.loss = loss
        train = dataset.train
        self.predictor = build_predictor(model, train.features.shape[1])
        losses = self.predictor.losses(train.features, _signs(train), loss)
        self.form = RobustRisk(losses, ambiguity, regularizer)
        self.splits = {"train": train, "validation": dataset.validation, "test": dataset.test}

    def score(self, point: Tensor, split: str) -> SplitScore | None:
        rows = self.splits[split]
        if rows is None:
            return None
        with torch.no_grad():
            scores = self.predictor.scores(point, rows.features)
            signs = _signs(rows)
            losses, _ = self.loss.value_and_slope(scores, signs)
            errors = binary_errors(scores, signs)
            by_class = [errors[rows.labels == label].mean() for label in rows.labels.unique()]
            extra = {
                "average_risk": float(losses.mean()),
                "worst_case_risk": float(self.form.ambiguity.worst_case(losses)),
                "worst_class_error": float(torch.stack(by_class).max()),
            }
            return SplitScore(error=float(errors.mean()), extra=extra)


def _signs(split: Split) -> Tensor:
    return (2 * split.labels - 1).to(split.features.dtype)


def build_kl_classification(
    config: KLClassificationConfig, dataset: Dataset, model: ModelConfig
) -> DivergenceClassification:
    """Return the problem that `config` describes on `dataset`."""
    regularizer = ElasticNet(config.l1, config.l2)
    return DivergenceClassification(dataset, model, KLPenalty(config.gamma), _LOSSES[config.loss](), regularizer)


def entry() -> ProblemEntry:
    """Return the catalogue entry."""
    return ProblemEntry(
        name="kl_classification",
        summary="Binary classification, robust to reweightings of the samples at a KL price.",
        reference="Haddadpour, Kamani, Mahdavi, Karbasi (ICLR 2022), KL-regularised DRO",
        config=KLClassificationConfig,
        factory=build_kl_classification,
        needs=frozenset({"binary_labels"}),
    )
