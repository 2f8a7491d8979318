"""Distributionally robust classification: the adversary reweights samples, at a price or within a ball.

All three problems minimise `r(x) + worst case of the losses f_i(x)`, with `r(x) = l1 |x|_1 + (l2 / 2) |x|_2^2` on all
parameters and the worst case over weights `p` of the samples:

    kl_classification    penalty: sum p f - gamma KL(p || 1/m);  ball: KL(p || 1/m) <= radius
    chi2_classification  variance: mean f + Var f / (2 gamma);  exact: the same with p >= 0;  ball: D(p) <= radius
    cvar_classification  mean of the worst share `level` of the losses; kl, chi2: the same at a price; entropic: a bound

where `D(p) = (m / 2) sum (p_i - 1/m)^2`.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from drobench.data.dataset import Dataset
from drobench.errors import SettingError, require_non_negative, require_one_of, require_positive
from drobench.objective.ambiguity_sets import (
    AmbiguitySet,
    Chi2Ball,
    Chi2Penalty,
    Chi2Variance,
    CVaR,
    KLBall,
    KLPenalty,
)
from drobench.objective.forms import RobustRisk
from drobench.objective.predictor import Model
from drobench.objective.regularizers import ElasticNet
from drobench.objective.score_losses import ScoreLoss
from drobench.objective.tail_risks import CappedChi2, CappedKL
from drobench.registry import ProblemEntry, load_catalogue
from drobench.registry.losses import loss_called, loss_settings
from drobench_plugins.problems.classification import Classification


@dataclass
class RobustConfig:
    """Settings that the robust learning problems share."""

    task: ClassVar[str] = "classification"

    l1: float = 0.0
    l2: float = 1e-3
    loss: str = "logistic"
    """Any installed loss of classification: `logistic` (softmax for more than two classes), `sigmoid` (bounded, not
    convex), `hinge`, `smoothed_hinge`."""
    loss_settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the loss, such as `{width: 0.5}` of `smoothed_hinge`."""
    class_weights: list[float] = field(default_factory=list)
    """What the losses of each class are multiplied by, in the order of the sorted labels; empty: by nothing."""
    balance_classes: bool = False
    """Weights by which every class weighs as much as any other: rows / (classes * rows of the class)."""

    def __post_init__(self) -> None:
        require_non_negative(self, "l1", "l2")
        self.loss_settings = loss_settings(self.loss, self.loss_settings, self.task, load_catalogue())
        self._check_weights()
        self.score_loss()

    def _check_weights(self) -> None:
        if not all(0.0 < weight < math.inf for weight in self.class_weights):
            raise SettingError(
                f"{type(self).__name__}.class_weights must be finite numbers above 0; found "
                f"{list(self.class_weights)}. Change `problem.class_weights=`."
            )
        if self.class_weights and self.balance_classes:
            raise SettingError(
                f"{type(self).__name__}: weights of classes are given or balanced; found both. Leave "
                "`problem.class_weights=` or `problem.balance_classes=` out."
            )
        if self.task == "regression" and (self.class_weights or self.balance_classes):
            raise SettingError(
                f"{type(self).__name__}: numbers that are to be predicted have no classes; found weights of classes. "
                "Leave `problem.class_weights=` and `problem.balance_classes=` out."
            )

    def score_loss(self) -> ScoreLoss:
        """Return the loss."""
        return loss_called(self.loss, self.loss_settings, self.task, load_catalogue())


@dataclass
class KLClassificationConfig(RobustConfig):
    """Settings of KL-robust classification."""

    variant: str = "penalty"
    """`penalty` (uses gamma) or `ball` (uses radius)."""
    gamma: float = 1.0
    """Price of the adversary's divergence: large is close to plain risk, small close to the worst sample."""
    radius: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "variant", ("penalty", "ball"))
        require_positive(self, "gamma")
        require_non_negative(self, "radius")

    def ambiguity(self) -> AmbiguitySet:
        """Return the adversary."""
        return KLPenalty(self.gamma) if self.variant == "penalty" else KLBall(self.radius)


@dataclass
class Chi2ClassificationConfig(RobustConfig):
    """Settings of chi-square-robust classification."""

    variant: str = "variance"
    """`variance` (weights may be negative, not convex in general), `exact` or `ball` (uses radius)."""
    gamma: float = 1.0
    radius: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "variant", ("variance", "exact", "ball"))
        require_positive(self, "gamma")
        require_non_negative(self, "radius")

    def ambiguity(self) -> AmbiguitySet:
        """Return the adversary."""
        if self.variant == "variance":
            return Chi2Variance(self.gamma)
        return Chi2Penalty(self.gamma) if self.variant == "exact" else Chi2Ball(self.radius)


@dataclass
class CVaRClassificationConfig(RobustConfig):
    """Settings of tail-risk classification."""

    level: float = 0.1
    """Share of the worst samples that counts; 1 is the plain mean."""
    variant: str = "exact"
    """`exact`; `kl` or `chi2` (smoothed: the adversary also pays gamma times this divergence); `entropic` (the entropic
    value at risk of this level, an upper bound of CVaR: a KL ball of radius -ln level)."""
    gamma: float = 0.1
    """Price of the divergence in the smoothed variants: near 0 they are CVaR, large is close to plain risk."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "variant", ("exact", "kl", "chi2", "entropic"))
        require_positive(self, "gamma")
        if not 0.0 < self.level <= 1.0:
            raise SettingError(f"{type(self).__name__}.level must be in (0, 1]; found {self.level}. Change `level=`.")

    def ambiguity(self) -> AmbiguitySet:
        """Return the adversary."""
        if self.variant == "entropic":
            return KLBall(-math.log(self.level))
        if self.variant == "exact":
            return CVaR(self.level)
        return (CappedKL if self.variant == "kl" else CappedChi2)(self.level, self.gamma)


class DivergenceClassification(Classification):
    """Classification under an adversary that reweights the training samples."""

    form: RobustRisk

    def __init__(self, config: Any, dataset: Dataset, model: Model) -> None:
        super().__init__(dataset, model, config.score_loss(), config.class_weights, config.balance_classes)
        self.form = RobustRisk(self.training_losses(), config.ambiguity(), ElasticNet(config.l1, config.l2))

    def worst_case(self, losses: Tensor) -> Tensor:
        return self.form.ambiguity.worst_case(losses)


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    paper = "Haddadpour, Kamani, Mahdavi, Karbasi (ICLR 2022)"
    return [
        ProblemEntry(
            name=name,
            summary=summary,
            reference=reference,
            config=config,
            factory=DivergenceClassification,
            needs=frozenset({"labels"}),
        )
        for name, summary, reference, config in (
            (
                "kl_classification",
                "Classification, robust to reweightings at a KL price or within a KL ball.",
                paper,
                KLClassificationConfig,
            ),
            (
                "chi2_classification",
                "Classification, robust to reweightings at a chi-square price or within a ball.",
                f"{paper}; Namkoong, Duchi (NeurIPS 2016, 2017)",
                Chi2ClassificationConfig,
            ),
            (
                "cvar_classification",
                "Classification by the mean of the worst share of the losses.",
                "Rockafellar, Uryasev (2000); Levy, Carmon, Duchi, Sidford (NeurIPS 2020)",
                CVaRClassificationConfig,
            ),
        )
    ]
