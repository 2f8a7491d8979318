"""What the problems with rates of groups share: a classifier, its mean loss, and violations on every split."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.data.dataset import Dataset, Split
from drobench.errors import require_non_negative, require_one_of
from drobench.objective.forms import Constrained, Constraints, FiniteSum
from drobench.objective.losses import HingeLoss, LinearMarginLosses, LogisticLoss, Losses, Margin
from drobench.objective.predictor import Model, build_predictor
from drobench.objective.rate_constraints import SURROGATES
from drobench.objective.regularizers import ElasticNet
from drobench.problem.metrics import Metric, SplitScore, binary_errors
from drobench.problem.problem import Problem
from drobench.problem.row_scores import RowScores
from drobench_plugins.problems.supervised import largest_group_mean

_SPLITS = ("train", "validation", "test")


@dataclass
class GroupFairnessConfig:
    """Settings that all problems with rates of groups have."""

    epsilon: float = 0.01
    """By how much the rate of a group may exceed that of everybody."""
    surrogate: str = "bce"
    """What stands for the 0-1 loss in the constraints: `bce` or `hinge`."""
    loss: str = "logistic"
    """The objective: `logistic` or `hinge`."""
    l2: float = 0.001
    fold_errors: bool = False
    """Report min(rate, 1 - rate) for every error rate, of everybody and of groups, as a released script does."""
    tolerance: float = 0.0
    """A point counts as feasible when its largest training violation is at most this."""

    def __post_init__(self) -> None:
        require_non_negative(self, "epsilon", "l2", "tolerance")
        require_one_of(self, "surrogate", tuple(SURROGATES))
        require_one_of(self, "loss", ("logistic", "hinge"))


class GroupFairness(Problem):
    """Binary classification with a rate per group held down; a subclass says which groups and which rate."""

    form: Constrained
    metrics = (
        Metric("mean_violation", unit="share"),
        Metric("violated_share", unit="share"),
        Metric("max_surrogate", unit="loss"),
        Metric("worst_group_error", unit="share"),
    )

    def __init__(self, config: GroupFairnessConfig, dataset: Dataset, model: Model) -> None:
        self.config = config
        self.tolerance = config.tolerance
        self.splits = {
            name: None if split is None else self.prepare(split, name)
            for name, split in zip(_SPLITS, (dataset.train, dataset.validation, dataset.test), strict=True)
        }
        train = self.splits["train"]
        assert train is not None
        # Columns that a subclass has added are no part of an image.
        shape = dataset.input_shape if train.columns == dataset.train.columns else train.columns
        self.predictor = build_predictor(model, shape)
        self.loss = LogisticLoss() if config.loss == "logistic" else HingeLoss()
        losses = self.predictor.losses(train.features, _signs(train), self.loss)
        objective = FiniteSum(losses, ElasticNet(0.0, config.l2))
        margins = self._margins(losses, train)
        self.form = Constrained(objective, self.constraints(train, margins))

    @property
    def link(self) -> str | None:
        return LogisticLoss.link if self.config.loss == "logistic" else None

    def prepare(self, split: Split, name: str) -> Split:
        """Return the rows as the classifier sees them."""
        return split

    @abstractmethod
    def constraints(self, train: Split, margins: Losses) -> Constraints:
        """Return the constraints on the training rows."""

    @abstractmethod
    def violations(self, errors: Tensor, split: Split) -> Tensor:
        """Return the signed violations, net of the slack, one per true group, from the 0-1 losses of the rows."""

    def reported(self, rates: Tensor) -> Tensor:
        """Return error rates as they are reported: unchanged, unless they are folded."""
        return torch.minimum(rates, 1.0 - rates) if self.config.fold_errors else rates

    def _margins(self, losses: Losses, train: Split) -> Losses:
        if isinstance(losses, LinearMarginLosses):
            # The same rows, and the same remembered margins, as the objective's.
            return losses.with_loss(Margin())
        return self.predictor.losses(train.features, _signs(train), Margin())

    @torch.no_grad()
    def row_scores(self, point: Tensor, split: str) -> RowScores | None:
        rows = self.splits[split]
        if rows is None or rows.rows == 0:
            return None
        scores = self.predictor.scores(point, rows.features)
        loss, _ = self.loss.value_and_slope(scores, _signs(rows))
        return RowScores(rows.labels, scores, loss, rows.groups, rows.attributes)

    @torch.no_grad()
    def score(self, point: Tensor, split: str) -> SplitScore | None:
        rows = self.splits[split]
        if rows is None:
            return None
        errors = binary_errors(self.predictor.scores(point, rows.features), _signs(rows))
        error = float(self.reported(errors.mean()))
        violations = self.violations(errors, rows)
        if violations.numel() == 0:
            return SplitScore(error=error)
        p95, p99 = torch.quantile(violations, violations.new_tensor([0.95, 0.99])).tolist()
        extra = {"mean_violation": float(violations.mean()), "violated_share": float((violations > 0).double().mean())}
        if rows.groups is not None:
            extra["worst_group_error"] = largest_group_mean(errors, rows.groups)
        if split == "train":
            surrogates, _ = self.form.constraints.surrogates(point[None], slice(None))
            extra["max_surrogate"] = float(surrogates.max())
        return SplitScore(error, float(violations.max()), p95, p99, extra)


def _signs(split: Split) -> Tensor:
    return (2 * split.labels - 1).to(split.features.dtype)
