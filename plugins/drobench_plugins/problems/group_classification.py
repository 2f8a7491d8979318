"""Group-robust classification: the adversary reweights groups of samples, and within a group treats all alike.

    min r(x) + max over q in the simplex of sum q_g L_g(x) [- gamma KL(q || 1/G)],    L_g = mean loss of group g

with `r(x) = l1 |x|_1 + (l2 / 2) |x|_2^2` on all parameters. Without the price this is the loss of the worst group;
groups count alike whatever their size. A group is what the dataset calls one, a class, one within the other, or a
client: a block of the training rows in their order, which `dataset.order=label` makes unlike each other.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.data.dataset import Dataset, Split
from drobench.errors import SettingError, require_one_of, require_positive
from drobench.objective.ambiguity_sets import AmbiguitySet, CVaR, KLPenalty
from drobench.objective.clients import Clients
from drobench.objective.forms import RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.predictor import Model
from drobench.objective.regularizers import ElasticNet
from drobench.problem.metrics import Metric
from drobench.registry import ProblemEntry
from drobench_plugins.problems.classification import Classification
from drobench_plugins.problems.divergence_classification import RobustConfig


@dataclass
class GroupClassificationConfig(RobustConfig):
    """Settings of group-robust classification."""

    variant: str = "worst"
    """`worst` (the largest group mean) or `penalty` (uses gamma)."""
    gamma: float = 0.1
    """Price of the divergence of the group weights: large is close to the mean of the group means."""
    groups: str = "label"
    """`attribute` (the groups of the dataset), `label` (its classes), `attribute_and_label` (each class of each group
    that has training rows) or `client` (blocks of training rows)."""
    clients: int = 10
    """How many blocks of equal size `groups=client` cuts the training rows into."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "variant", ("worst", "penalty"))
        require_one_of(self, "groups", ("attribute", "label", "attribute_and_label", "client"))
        require_positive(self, "gamma", "clients")

    def over(self, groups: int) -> AmbiguitySet:
        """Return the adversary over the means of so many groups."""
        return CVaR(1.0 / groups) if self.variant == "worst" else KLPenalty(self.gamma)


class GroupClassification(Classification):
    """Classification under an adversary that reweights groups of the training samples."""

    form: RobustRisk
    metrics = (*Classification.metrics, Metric("mean_group_error", unit="share"))

    def __init__(self, config: GroupClassificationConfig, dataset: Dataset, model: Model) -> None:
        super().__init__(dataset, model, config.score_loss(), config.class_weights, config.balance_classes)
        self.config = config
        self.groups = {
            name: None if split is None else self._groups(name, split) for name, split in self.splits.items()
        }
        groups = self.groups["train"]
        assert groups is not None
        if config.groups == "attribute_and_label":
            # Of the combinations only those that occur are groups.
            groups = groups.unique(return_inverse=True)[1]
        self._refuse_empty(groups)
        ambiguity = GroupAdversary(groups, config.over(int(groups.max()) + 1))
        self.form = RobustRisk(self.training_losses(), ambiguity, ElasticNet(config.l1, config.l2))

    def _groups(self, name: str, split: Split) -> Tensor | None:
        """Return the group of each row; `None` where nobody knows."""
        if self.config.groups == "client":
            return self._clients(split) if name == "train" else None
        labels = torch.cat([split.take(piece).labels for piece in split.pieces()])
        if self.config.groups == "label":
            return labels
        found = [split.take(piece).groups for piece in split.pieces()]
        known = [part for part in found if part is not None]
        if len(known) < len(found):
            raise SettingError(
                f"problem.groups={self.config.groups} needs a dataset that says which group a row belongs to; found "
                f"that {self.dataset.name!r} provides {', '.join(sorted(self.dataset.provides))}. Use "
                "problem.groups=label or client, or a dataset with groups, such as adult_twin; dataset=tabular has "
                "them with `dataset.group=COLUMN`."
            )
        groups = torch.cat(known)
        return groups * self.dataset.classes + labels if self.config.groups == "attribute_and_label" else groups

    def _clients(self, split: Split) -> Tensor:
        if self.config.clients > split.rows:
            raise SettingError(
                f"problem.clients must be at most the number of training rows, {split.rows}; found "
                f"{self.config.clients}. Use fewer clients."
            )
        equal = Clients((1.0,) * self.config.clients, local=True, whole_batch=False, by_rows=False)
        sizes = torch.tensor(equal.bounds(split.rows)).diff()
        numbers = torch.repeat_interleave(torch.arange(self.config.clients), sizes)
        return numbers.to(split.take(slice(0, 1)).features.device)

    def _refuse_empty(self, groups: Tensor) -> None:
        """Refuse numbers between which some group has no training row, in the words of the dataset."""
        present = torch.bincount(groups, minlength=self.dataset.classes if self.config.groups == "label" else 0)
        empty = torch.nonzero(present == 0)[:, 0].tolist()
        if empty:
            kind = "class" if self.config.groups == "label" else "group"
            raise SettingError(
                f"problem.groups={self.config.groups} needs training rows of every {kind}; found none of "
                f"{kind} {', '.join(str(number) for number in empty)} in dataset {self.dataset.name!r}. Raise the "
                "first fraction of `dataset.split=`, or take more rows."
            )

    def further_scores(self, split: str, losses: Tensor, errors: Tensor, groups: Tensor | None) -> dict[str, float]:
        # Those that the adversary weighs, which need not be those of the dataset.
        own = self.groups[split]
        if own is None:
            return {}
        # A small split may lack a group; those that are there count.
        _, present = own.unique(return_inverse=True)
        adversary = GroupAdversary(present, self.config.over(int(present.max()) + 1))
        rates = adversary.means(errors)
        return {
            "worst_case_risk": float(adversary.worst_case(losses)),
            "worst_group_error": float(rates.max()),
            "mean_group_error": float(rates.mean()),
        }


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    return [
        ProblemEntry(
            name="group_classification",
            summary="Classification by the loss of the worst group: attributes, classes or clients.",
            reference="Sagawa, Koh, Hashimoto, Liang (ICLR 2020); Mohri, Sivek, Suresh (ICML 2019)",
            config=GroupClassificationConfig,
            factory=GroupClassification,
            needs=frozenset({"labels"}),
        )
    ]
