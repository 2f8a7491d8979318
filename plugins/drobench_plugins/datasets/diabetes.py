"""Diabetes patients (442, ten measurements): a number to be predicted, from data that come with scikit-learn."""

from dataclasses import dataclass

from drobench.data.build import build_dataset
from drobench.data.dataset import Dataset, DatasetConfig
from drobench.data.encoder import number_encoder
from drobench.registry.entries import DatasetEntry, no_files


@dataclass
class DiabetesConfig(DatasetConfig):
    """Settings of the diabetes data."""

    scale_targets: bool = True
    """Whether targets are divided by 100, so that losses of usual widths and weights fit them; 25 to 346 otherwise."""


def load_diabetes_dataset(config: DiabetesConfig) -> Dataset:
    """Return the raw measurements and the progression of the disease after a year."""
    from sklearn.datasets import load_diabetes  # noqa: PLC0415  # two seconds that no other dataset needs

    raw = load_diabetes(scaled=False)
    scale = 100.0 if config.scale_targets else 1.0
    names = tuple(raw.feature_names)
    encoder = number_encoder(names, target="progression", target_scale=scale)
    columns = {"targets": raw.target / scale}
    return build_dataset("diabetes", raw.data, None, config, feature_names=names, columns=columns, encoder=encoder)


def entry() -> DatasetEntry:
    """Return the catalogue entry."""
    return DatasetEntry(
        name="diabetes",
        summary="442 diabetes patients, ten features, progression after a year as a number; embedded.",
        reference="Efron, Hastie, Johnstone, Tibshirani (2004): Least angle regression",
        config=DiabetesConfig,
        factory=load_diabetes_dataset,
        provides=frozenset({"targets"}),
        reads=no_files,
    )
