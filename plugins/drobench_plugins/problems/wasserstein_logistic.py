"""Logistic regression against every distribution within a Wasserstein ball around the training sample.

Moving a sample costs the distance of its features plus `flip_cost` for another label; `radius` bounds the mean cost.
What is minimised is the exact worst-case risk `F(x) + (l2 / 2) |x|^2`, a function of the parameters alone.
"""

import math
from dataclasses import dataclass

from drobench.data.dataset import Dataset
from drobench.errors import SettingError, require_non_negative, require_one_of, require_positive
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Margin
from drobench.objective.predictor import LinearPredictor, Model
from drobench.objective.regularizers import ElasticNet
from drobench.objective.wasserstein import WassersteinRisk
from drobench.registry import ProblemEntry
from drobench_plugins.problems.classification import Classification


@dataclass
class WassersteinLogisticConfig:
    """Settings of Wasserstein-robust logistic regression."""

    radius: float = 0.05
    flip_cost: float | None = 1.0
    """Cost of changing a label; null: labels are certain."""
    norm: str = "l2"
    """Norm in which features move: `l1`, `l2` or `linf`; the parameters are bounded in its dual."""
    l2: float = 0.0

    def __post_init__(self) -> None:
        require_positive(self, "radius", "flip_cost")
        require_one_of(self, "norm", ("l1", "l2", "linf"))
        require_non_negative(self, "l2")


class WassersteinLogistic(Classification):
    """Binary logistic regression with the worst case over a Wasserstein ball."""

    def __init__(self, config: WassersteinLogisticConfig, dataset: Dataset, model: Model) -> None:
        super().__init__(dataset, model, LogisticLoss())
        if not isinstance(self.predictor, LinearPredictor):
            raise SettingError(f"wasserstein_logistic needs model=linear; found model={model.name}.")
        # Its reformulations work on all rows at once.
        losses = self.losses_of(dataset.train)
        assert isinstance(losses, LinearMarginLosses)
        flip_cost = math.inf if config.flip_cost is None else config.flip_cost
        self.form = WassersteinRisk(
            losses.with_loss(Margin()),
            config.radius,
            flip_cost,
            config.norm,
            ElasticNet(0.0, config.l2),
            int(self.predictor.intercept),
        )


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    return [
        ProblemEntry(
            name="wasserstein_logistic",
            summary="Binary logistic regression, robust to all distributions within a Wasserstein ball.",
            reference="Shafieezadeh-Abadeh, Mohajerin Esfahani, Kuhn (NeurIPS 2015)",
            config=WassersteinLogisticConfig,
            factory=WassersteinLogistic,
            needs=frozenset({"binary_labels"}),
        )
    ]
