"""Wines of three cultivars (178, thirteen measurements): real data that come with scikit-learn."""

from dataclasses import dataclass

from drobench.data.build import build_dataset
from drobench.data.dataset import Dataset, DatasetConfig
from drobench.registry.entries import DatasetEntry, no_files


@dataclass
class WineConfig(DatasetConfig):
    """Settings of the wines."""


def load_wine_dataset(config: WineConfig) -> Dataset:
    """Return the wines, with the three cultivars as classes."""
    from sklearn.datasets import load_wine  # noqa: PLC0415  # two seconds that no other dataset needs

    raw = load_wine()
    return build_dataset("wine", raw.data, raw.target, config, feature_names=tuple(raw.feature_names))


def entry() -> DatasetEntry:
    """Return the catalogue entry."""
    return DatasetEntry(
        name="wine",
        summary="178 wines of three cultivars, thirteen features; embedded.",
        reference="Aeberhard, Forina: Wine, UCI (1992), doi:10.24432/C5PC7J",
        config=WineConfig,
        factory=load_wine_dataset,
        provides=frozenset({"labels"}),
        reads=no_files,
    )
