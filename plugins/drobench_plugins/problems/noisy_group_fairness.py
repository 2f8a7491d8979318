"""True-positive rates of groups that are only known through noisy proxies.

The classifier is to treat the true groups alike, but sees proxies: `floor(noise n)` rows, drawn uniformly, were moved
to another group, drawn uniformly. What is known is the chance of each true group given the proxy. The constraints are
those of `resamples` groupings drawn from these chances, all drawn beforehand from the dataset's seed: a pool, so that
"all constraints" means something. Results are scored on the true groups.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from drobench.data.dataset import DataError, Dataset, Split
from drobench.errors import SettingError, require_one_of, require_positive
from drobench.objective.forms import Constraints
from drobench.objective.losses import Losses
from drobench.objective.predictor import Model
from drobench.objective.rate_constraints import RateConstraints
from drobench.registry import ProblemEntry
from drobench_plugins.problems.group_fairness import GroupFairness, GroupFairnessConfig

# Keeps these draws apart from those of the split, which come from the same seed.
_STREAM = 7
CONSTRAINT_FEATURES = ("membership", "size", "size_and_rate", "means")


@dataclass
class NoisyGroupFairnessConfig(GroupFairnessConfig):
    """Settings of the problem with noisy groups."""

    epsilon: float = 0.05
    noise: float = 0.3
    """Share of the rows whose proxy is another group than their own."""
    resamples: int = 100
    """Groupings in the pool of constraints; there is one constraint per grouping and group."""
    resampling: bool = True
    """Draw the groupings from the chances; false: the proxies themselves are the only grouping."""
    compare_with_everybody: bool = False
    """Compare the positive rows of a group with all rows of either label, as a released script does, and not with all
    positive rows. Only constraints change: scores stay those of true-positive rates."""
    proxy_features: bool = True
    """Whether the classifier sees the proxies, as one column per group."""
    constraint_features: str = "size_and_rate"
    """What a multiplier model sees: `membership` (of every row), `size`, `size_and_rate` or `means` (of features)."""
    merged: bool = True
    """With `surrogate=hinge`: weigh each row by group less everybody before the hinge, which is tighter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "resamples")
        require_one_of(self, "constraint_features", CONSTRAINT_FEATURES)
        if not 0.0 <= self.noise < 1.0:
            raise SettingError(
                f"NoisyGroupFairnessConfig.noise must be in [0, 1); found {self.noise}. Change `problem.noise=`."
            )


class NoisyGroupFairness(GroupFairness):
    """`true-positive rate of group >= that of everybody - epsilon` for every group of every resample."""

    config: NoisyGroupFairnessConfig

    def __init__(self, config: NoisyGroupFairnessConfig, dataset: Dataset, model: Model) -> None:
        assert dataset.train.groups is not None
        self.groups = int(dataset.train.groups.max()) + 1
        if dataset.train.groups.unique().numel() < 2:
            raise DataError("noisy_group_fairness: the training rows must belong to at least two groups; found one.")
        self.generator = np.random.default_rng([dataset.seed, _STREAM])
        self.proxies: dict[str, Tensor] = {}
        self.noise = config.noise
        self.with_proxies = config.proxy_features
        super().__init__(config, dataset, model)

    def prepare(self, split: Split, name: str) -> Split:
        assert split.groups is not None
        beyond = int(split.groups.max()) + 1
        if beyond > self.groups:
            raise DataError(
                f"noisy_group_fairness: the {name} rows have a group {beyond - 1} that the training rows, with groups "
                f"0 to {self.groups - 1}, do not know. Leave its rows out or change `dataset.split=`."
            )
        proxies = noisy_proxies(split.groups.cpu().numpy(), self.groups, self.noise, self.generator)
        self.proxies[name] = torch.from_numpy(proxies).to(split.groups.device)
        if not self.with_proxies:
            return split
        columns = torch.nn.functional.one_hot(self.proxies[name], self.groups).to(split.features.dtype)
        return replace(split, features=torch.cat([split.features, columns], dim=1))

    def constraints(self, train: Split, margins: Losses) -> Constraints:
        assert train.groups is not None
        proxies, truth = self.proxies["train"].cpu().numpy(), train.groups.cpu().numpy()
        chances = chances_of_truth(truth, proxies, self.groups)
        drawn = proxies[None]
        if self.config.resampling:
            drawn = resampled_groups(proxies, chances, self.config.resamples, self.generator)
        members = (drawn[:, None, :] == np.arange(self.groups, dtype=drawn.dtype)[None, :, None]).reshape(
            -1, train.rows
        )
        positive = train.labels.to(torch.uint8)
        flags = torch.from_numpy(members.astype(np.uint8)).to(positive.device)
        # A group that a resample left without a positive row has no rate.
        flags = flags[(flags * positive).sum(dim=1, dtype=torch.int64) > 0]
        counted, everybody = flags, positive
        if self.config.compare_with_everybody:
            counted, everybody = flags * positive, torch.ones_like(positive)
        return RateConstraints(
            margins,
            counted,
            everybody,
            self.config.epsilon,
            self.config.surrogate,
            self._features(flags, train),
            merged=self.config.merged and self.config.surrogate == "hinge",
        )

    def _features(self, members: Tensor, train: Split) -> Tensor:
        weights = members.to(train.features.dtype)
        kind = self.config.constraint_features
        if kind == "membership":
            return weights
        sizes = weights.sum(dim=1, keepdim=True)
        shares = sizes / train.rows
        if kind == "size":
            return shares
        means = weights @ (train.features if kind == "means" else train.labels.to(weights.dtype)[:, None]) / sizes
        return means if kind == "means" else torch.cat([shares, means], dim=1)

    def violations(self, errors: Tensor, split: Split) -> Tensor:
        assert split.groups is not None
        positive = split.labels == 1
        missed, groups = errors[positive], split.groups[positive]
        counts = torch.bincount(groups, minlength=self.groups).to(errors.dtype)
        by_group = torch.bincount(groups, weights=missed, minlength=self.groups) / counts
        return self.reported(by_group[counts > 0]) - self.reported(missed.mean()) - self.config.epsilon


def noisy_proxies(truth: np.ndarray, groups: int, noise: float, generator: np.random.Generator) -> np.ndarray:
    """Return the groups after exactly `floor(noise n)` rows were moved to another group, all choices uniform."""
    # 0.29 * 100 is 28.999999999999996, of which the floor is to be 29.
    moved = generator.choice(truth.size, int(round(noise * truth.size, 6)), replace=False)
    proxies = truth.copy()
    # Adding 1 to G - 1 modulo G reaches each of the other groups once.
    proxies[moved] = (proxies[moved] + generator.integers(1, groups, moved.size)) % groups
    return proxies


def chances_of_truth(truth: np.ndarray, proxies: np.ndarray, groups: int) -> np.ndarray:
    """Return `P(true group = j | proxy = k)` as row `k`, estimated from these rows."""
    counts = np.bincount(proxies * groups + truth, minlength=groups * groups).reshape(groups, groups).astype(float)
    totals = counts.sum(axis=1, keepdims=True)
    # A proxy that does not occur is never asked for.
    return counts / np.maximum(totals, 1.0)


def resampled_groups(
    proxies: np.ndarray, chances: np.ndarray, resamples: int, generator: np.random.Generator
) -> np.ndarray:
    """Return `(resamples, rows)`: true groups drawn for every row from the chances that its proxy leaves."""
    limits = chances.cumsum(axis=1)[:, :-1]
    draws = generator.random((resamples, proxies.size))
    drawn = np.zeros(draws.shape, dtype=np.min_scalar_type(chances.shape[0]))
    for limit in limits[proxies].T:  # one comparison for each group but the last
        drawn += draws >= limit
    return drawn


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    return [
        ProblemEntry(
            name="noisy_group_fairness",
            summary="Classification; true-positive rates of groups known only through noisy proxies stay together.",
            reference="Wang et al. (NeurIPS 2020); Narasimhan et al. (NeurIPS 2020); Haddadpour et al. (ICLR 2022)",
            config=NoisyGroupFairnessConfig,
            factory=NoisyGroupFairness,
            needs=frozenset({"binary_labels", "groups"}),
        )
    ]
