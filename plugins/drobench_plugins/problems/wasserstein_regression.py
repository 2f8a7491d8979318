"""Linear regression against every distribution within a Wasserstein ball around the training sample.

A pair of features and target moves by the norm of both, and `radius` bounds the mean cost, which is that distance for
losses with a largest slope (absolute, Huber, quantile) and its square for the squared loss. What is minimised is the
exact worst-case risk `F(x) + (l2 / 2) |x|^2`, a function of the parameters alone.
"""

import math
from dataclasses import dataclass, field

from drobench.data.dataset import Dataset
from drobench.errors import SettingError, require_non_negative, require_one_of, require_positive
from drobench.objective.losses import LinearTargetLosses
from drobench.objective.predictor import LinearPredictor, Model
from drobench.objective.regularizers import ElasticNet
from drobench.objective.score_losses import ScoreLoss
from drobench.objective.wasserstein_regression import WassersteinRegressionRisk
from drobench.registry import ProblemEntry, load_catalogue
from drobench.registry.losses import loss_called
from drobench_plugins.problems.regression import Regression


@dataclass
class WassersteinRegressionConfig:
    """Settings of Wasserstein-robust regression."""

    radius: float = 0.01
    """Of the ball: mean distance moved, or for the squared loss the mean square of it."""
    target_cost: float | None = None
    """What moving a target by one costs, in units of the features; null: targets are certain."""
    norm: str = "l2"
    """Norm in which features, and targets times their cost, move: `l1`, `l2` or `linf`; the parameters are bounded in
    its dual."""
    loss: str = "squared"
    """`squared`, `absolute`, `huber`, `quantile`, or any installed loss of regression with a largest slope."""
    loss_settings: dict[str, float] = field(default_factory=dict)
    """Settings of the loss, such as `{delta: 0.5}` of `huber`."""
    l2: float = 0.0

    def __post_init__(self) -> None:
        require_positive(self, "radius", "target_cost")
        require_one_of(self, "norm", ("l1", "l2", "linf"))
        require_non_negative(self, "l2")
        self.score_loss()

    def score_loss(self) -> ScoreLoss:
        """Return the loss."""
        return loss_called(self.loss, self.loss_settings, "regression", load_catalogue())


class WassersteinRegression(Regression):
    """Linear regression with the worst case over a Wasserstein ball."""

    def __init__(self, config: WassersteinRegressionConfig, dataset: Dataset, model: Model) -> None:
        super().__init__(dataset, model, config.score_loss())
        if not isinstance(self.predictor, LinearPredictor):
            raise SettingError(f"wasserstein_regression needs model=linear; found model={model.name}.")
        # The norm and its dual work on all rows at once.
        losses = self.losses_of(dataset.train)
        assert isinstance(losses, LinearTargetLosses)
        target_cost = math.inf if config.target_cost is None else config.target_cost
        regularizer = ElasticNet(0.0, config.l2)
        self.form = WassersteinRegressionRisk(
            losses, config.radius, target_cost, config.norm, regularizer, int(self.predictor.intercept)
        )


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    return [
        ProblemEntry(
            name="wasserstein_regression",
            summary="Linear regression, robust to all distributions within a Wasserstein ball.",
            reference="Shafieezadeh-Abadeh, Kuhn, Mohajerin Esfahani (JMLR 2019); Blanchet, Kang, Murthy (2019)",
            config=WassersteinRegressionConfig,
            factory=WassersteinRegression,
            needs=frozenset({"targets"}),
        )
    ]
