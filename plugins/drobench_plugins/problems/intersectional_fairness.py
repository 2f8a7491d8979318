"""Error rates of intersectional groups: no group much worse off than everybody.

A group is all rows whose attributes exceed three (or however many) thresholds. The thresholds form a grid of quantiles
of the training rows; groups that hold too small a share of any split are left out. Many thresholds cut out the same
training rows: such constraints are evaluated once and counted as often as they occur.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.data.dataset import DataError, Dataset, Split
from drobench.errors import require_positive
from drobench.objective.forms import Constraints
from drobench.objective.losses import Losses
from drobench.objective.predictor import Model
from drobench.objective.rate_constraints import RateConstraints
from drobench.registry import ProblemEntry
from drobench_plugins.problems.group_fairness import GroupFairness, GroupFairnessConfig


@dataclass
class IntersectionalFairnessConfig(GroupFairnessConfig):
    """Settings of the intersectional problem."""

    grid: int = 10
    """Quantiles per attribute: (k + 1/2) / grid for k = 0, 1, ..."""
    smallest_share: float = 0.01
    """Groups with at most this share of the rows of any split are left out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "grid", "smallest_share")


class IntersectionalFairness(GroupFairness):
    """`error of group <= error of everybody + epsilon` for all threshold groups."""

    def __init__(self, config: IntersectionalFairnessConfig, dataset: Dataset, model: Model) -> None:
        self.thresholds = _thresholds(config, dataset)
        super().__init__(config, dataset, model)

    def constraints(self, train: Split, margins: Losses) -> Constraints:
        members = _members(train, self.thresholds)
        distinct, which = torch.unique(members, dim=0, return_inverse=True)
        everybody = torch.ones(train.rows, dtype=torch.uint8, device=members.device)
        features = self.thresholds.to(train.features)
        return RateConstraints(
            margins, distinct, everybody, self.config.epsilon, self.config.surrogate, features, which=which
        )

    def violations(self, errors: Tensor, split: Split) -> Tensor:
        members = _members(split, self.thresholds).to(errors.dtype)
        by_group = self.reported(members @ errors / members.sum(dim=1))
        return by_group - self.reported(errors.mean()) - self.config.epsilon


def _thresholds(config: IntersectionalFairnessConfig, dataset: Dataset) -> Tensor:
    """Return the thresholds `(groups, attributes)` of the groups that are large enough in every split."""
    attributes = _attributes(dataset.train)
    levels = (torch.arange(config.grid, dtype=attributes.dtype, device=attributes.device) + 0.5) / config.grid
    quantiles = torch.quantile(attributes, levels, dim=0)
    grid = torch.cartesian_prod(*quantiles.T).reshape(-1, attributes.shape[1])
    large = torch.ones(grid.shape[0], dtype=torch.bool, device=grid.device)
    for split in (dataset.train, dataset.validation, dataset.test):
        if split is not None:
            large &= _members(split, grid).to(attributes.dtype).mean(dim=1) > config.smallest_share
    if not bool(large.any()):
        raise DataError(
            f"intersectional_fairness: none of the {grid.shape[0]} groups holds more than "
            f"{config.smallest_share:.3g} of the rows of every split. Lower `problem.smallest_share=`."
        )
    return grid[large]


def _members(split: Split, thresholds: Tensor) -> Tensor:
    """Return `(groups, rows)`: 1 where all attributes of the row are above the group's thresholds."""
    attributes = _attributes(split)
    thresholds = thresholds.to(attributes)
    inside = torch.ones(thresholds.shape[0], split.rows, dtype=torch.bool, device=thresholds.device)
    for column in range(thresholds.shape[1]):
        inside &= attributes[:, column] > thresholds[:, column, None]
    return inside.to(torch.uint8)


def _attributes(split: Split) -> Tensor:
    """Return the attributes as fractional numbers, which quantiles of whole numbers are too."""
    assert split.attributes is not None
    return split.attributes.to(split.features.dtype)


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    return [
        ProblemEntry(
            name="intersectional_fairness",
            summary="Classification; the error of every group cut out by thresholds stays near the overall error.",
            reference="Kearns, Neel, Roth, Wu (ICML 2018); Narasimhan et al. (NeurIPS 2020); Haddadpour et al. (2022)",
            config=IntersectionalFairnessConfig,
            factory=IntersectionalFairness,
            needs=frozenset({"binary_labels", "attributes"}),
        )
    ]
