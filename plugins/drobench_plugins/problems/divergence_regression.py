"""Distributionally robust regression: the adversaries of `divergence_classification` against losses of residuals.

    kl_regression    penalty: sum p f - gamma KL(p || 1/m);  ball: KL(p || 1/m) <= radius
    chi2_regression  variance: mean f + Var f / (2 gamma);  exact: the same with p >= 0;  ball: D(p) <= radius
    cvar_regression  mean of the worst share `level` of the losses; kl, chi2: the same at a price; entropic: a bound

with `r(x) = l1 |x|_1 + (l2 / 2) |x|_2^2` on all parameters.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from drobench.data.dataset import Dataset
from drobench.objective.forms import RobustRisk
from drobench.objective.predictor import Model
from drobench.objective.regularizers import ElasticNet
from drobench.registry import ProblemEntry
from drobench_plugins.problems.divergence_classification import (
    Chi2ClassificationConfig,
    CVaRClassificationConfig,
    KLClassificationConfig,
)
from drobench_plugins.problems.regression import Regression


@dataclass
class KLRegressionConfig(KLClassificationConfig):
    """Settings of KL-robust regression."""

    task: ClassVar[str] = "regression"
    loss: str = "squared"
    """Any installed loss of regression: `squared`, `absolute`, `huber`, `quantile`."""


@dataclass
class Chi2RegressionConfig(Chi2ClassificationConfig):
    """Settings of chi-square-robust regression."""

    task: ClassVar[str] = "regression"
    loss: str = "squared"
    """Any installed loss of regression: `squared`, `absolute`, `huber`, `quantile`."""


@dataclass
class CVaRRegressionConfig(CVaRClassificationConfig):
    """Settings of tail-risk regression."""

    task: ClassVar[str] = "regression"
    loss: str = "squared"
    """Any installed loss of regression: `squared`, `absolute`, `huber`, `quantile`."""


class DivergenceRegression(Regression):
    """Regression under an adversary that reweights the training samples."""

    form: RobustRisk

    def __init__(self, config: Any, dataset: Dataset, model: Model) -> None:
        super().__init__(dataset, model, config.score_loss())
        self.form = RobustRisk(self.training_losses(), config.ambiguity(), ElasticNet(config.l1, config.l2))

    def worst_case(self, losses: Tensor) -> Tensor:
        return self.form.ambiguity.worst_case(losses)


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    return [
        ProblemEntry(
            name=name,
            summary=f"Regression, {summary}.",
            reference=reference,
            config=config,
            factory=DivergenceRegression,
            needs=frozenset({"targets"}),
        )
        for name, summary, reference, config in (
            (
                "kl_regression",
                "robust to reweightings at a KL price or within a KL ball",
                "Hu, Hong (2013): KL-constrained distributionally robust optimization",
                KLRegressionConfig,
            ),
            (
                "chi2_regression",
                "robust to reweightings at a chi-square price or within a ball",
                "Namkoong, Duchi (NeurIPS 2016, 2017)",
                Chi2RegressionConfig,
            ),
            (
                "cvar_regression",
                "by the mean of the worst share of the losses",
                "Rockafellar, Uryasev (2000); Levy, Carmon, Duchi, Sidford (NeurIPS 2020)",
                CVaRRegressionConfig,
            ),
        )
    ]
