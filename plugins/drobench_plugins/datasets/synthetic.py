"""Noisy linear classification from a seed, with a conditioning that can be chosen.

The draws, in this order, in float64, from one torch generator with the dataset's seed (m rows, n features):

    Z = randn(m, n),    b = 3 randn(n) / sqrt(n),    y = sign(Z b + noise randn(m)),  where sign(0) = 1

The features are Z after a scaling that the labels do not see:

    ill:   column k of Z times 10^(-decades (k-1)/(n-1)), for k = 1..n: by default scales from 1 down to 1/10
    well:  Z / 2

Labelling before scaling is what makes `ill` hard: the columns of small scale matter for the labels as much as
the others, so that a good solution needs large weights there.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from drobench.data.build import build_dataset
from drobench.data.dataset import Dataset, DatasetConfig
from drobench.errors import require_non_negative, require_one_of, require_positive
from drobench.registry.entries import DatasetEntry, no_files


@dataclass
class SyntheticConfig(DatasetConfig):
    """Settings of `synthetic`.

    Attributes:
        rows: Number of samples (m).
        features: Number of columns (n).
        conditioning: `ill` for scales that fall from column to column, `well` for one scale.
        decades: Powers of ten from the largest scale to the smallest, where `ill`: 1 for scales from 1 down to 1/10.
        noise: Standard deviation of what is added to the margin before its sign is taken.
        split: By default every row is for training, in the order of the draws.
        standardize: Off by default: it would undo the scaling.
    """

    rows: int = 10000
    features: int = 10
    conditioning: str = "ill"
    decades: float = 1.0
    noise: float = 1.0
    split: list[float] = field(default_factory=lambda: [1.0, 0.0, 0.0])
    standardize: bool = False

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            SettingError: A setting is impossible.
        """
        super().__post_init__()
        require_positive(self, "rows", "features")
        require_non_negative(self, "noise", "decades")
        require_one_of(self, "conditioning", ("ill", "well"))


def load_synthetic_dataset(config: SyntheticConfig) -> Dataset:
    """Draw the instance that the settings fix; class 1 is y = +1, class 0 is y = -1."""
    features, labels = _draw_instance(config)
    return build_dataset("synthetic", features.numpy(), labels.numpy(), config)


def _draw_instance(config: SyntheticConfig) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(config.seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    raw = normal(config.rows, config.features)
    weights = 3.0 * normal(config.features) / math.sqrt(config.features)
    margins = raw @ weights + config.noise * normal(config.rows)
    return raw * _column_scales(config), (margins >= 0).to(torch.int64)


def _column_scales(config: SyntheticConfig) -> Tensor:
    if config.conditioning == "well":
        return torch.full((config.features,), 0.5, dtype=torch.float64)
    # A single column has scale 1; the maximum keeps its exponent from being 0/0.
    exponents = torch.arange(config.features, dtype=torch.float64) / max(config.features - 1, 1)
    return 10.0 ** (-config.decades * exponents)


def entry() -> DatasetEntry:
    """The catalogue entry."""
    return DatasetEntry(
        name="synthetic",
        summary="Noisy linear classification from a seed, ill- or well-conditioned, of any size.",
        reference="Gaussian features, labels from a random hyperplane with Gaussian noise.",
        config=SyntheticConfig,
        factory=load_synthetic_dataset,
        provides=frozenset({"labels", "binary_labels"}),
        reads=no_files,
    )
