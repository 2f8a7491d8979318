"""The Wisconsin diagnostic breast cancer data that ship with scikit-learn: real, small, and no download."""

from dataclasses import dataclass

from drobench.data.build import build_dataset
from drobench.data.dataset import Dataset, DatasetConfig
from drobench.data.encoder import number_encoder
from drobench.registry.entries import DatasetEntry, no_files

# What scikit-learn calls our classes 0 and 1.
_LABELS = (1, 0)


@dataclass
class BreastCancerConfig(DatasetConfig):
    """Settings of `breast_cancer`: those every dataset has."""


def load_breast_cancer_dataset(config: BreastCancerConfig) -> Dataset:
    """Load 569 tumours with 30 measurements each; class 1 is malignant (212 rows), class 0 benign (357 rows).

    scikit-learn codes malignant as 0. It is turned round here, so that the positive class is the one to
    be found.
    """
    # Imported here, because scikit-learn is slow to import and only this loader needs it.
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415

    source = load_breast_cancer()
    names = [str(name) for name in source.feature_names]
    return build_dataset(
        "breast_cancer",
        source.data,
        1 - source.target,
        config,
        feature_names=names,
        encoder=number_encoder(names, classes=_LABELS, target="diagnosis"),
    )


def entry() -> DatasetEntry:
    """The catalogue entry."""
    return DatasetEntry(
        name="breast_cancer",
        summary="Wisconsin diagnostic breast cancer: 569 tumours, 30 features, malignant is positive.",
        reference=(
            "W. H. Wolberg, W. N. Street, O. L. Mangasarian (1995). Breast Cancer Wisconsin (Diagnostic). "
            "UCI Machine Learning Repository, doi:10.24432/C5DW2B. The copy embedded in scikit-learn."
        ),
        config=BreastCancerConfig,
        factory=load_breast_cancer_dataset,
        provides=frozenset({"labels", "binary_labels"}),
        reads=no_files,
    )
