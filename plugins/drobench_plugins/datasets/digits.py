"""Handwritten digits (1797 images of 8x8 pixels, ten classes): real data that comes with scikit-learn."""

from dataclasses import dataclass

from drobench.data.build import build_dataset
from drobench.data.dataset import Dataset, DatasetConfig
from drobench.errors import SettingError
from drobench.registry.entries import DatasetEntry, no_files

_CLASSES = range(10)


@dataclass
class DigitsConfig(DatasetConfig):
    """Settings of the digits."""

    positive_classes: list[int] | None = None
    """Digits that make up the positive class of a binary problem; null: all ten classes."""

    def __post_init__(self) -> None:
        """Refuse digits that do not exist, and splits with an empty side."""
        super().__post_init__()
        chosen = self.positive_classes
        if chosen is None:
            return
        if not set(chosen) <= set(_CLASSES) or not 0 < len(set(chosen)) < len(_CLASSES):
            raise SettingError(
                "DigitsConfig.positive_classes must name between one and nine digits from 0 to 9; "
                f"found {list(chosen)}. Change `dataset.positive_classes=`, e.g. to [3,8]."
            )


def load_digits_dataset(config: DigitsConfig) -> Dataset:
    """Return the digits, with ten classes or two."""
    import numpy as np  # noqa: PLC0415
    from sklearn.datasets import load_digits  # noqa: PLC0415  # two seconds that no other dataset needs

    raw = load_digits()
    labels = raw.target
    if config.positive_classes is not None:
        labels = np.isin(labels, list(config.positive_classes)).astype(np.int64)
    return build_dataset("digits", raw.data, labels, config, feature_names=tuple(raw.feature_names), shape=(1, 8, 8))


def entry() -> DatasetEntry:
    """Return the catalogue entry."""
    return DatasetEntry(
        name="digits",
        summary="1797 handwritten digits, ten classes, or two with positive_classes; embedded.",
        reference="Alpaydin, Kaynak: Optical Recognition of Handwritten Digits, UCI (1998)",
        config=DigitsConfig,
        factory=load_digits_dataset,
        # Two classes only on request: whether the labels are binary is checked where it matters, on the loaded data.
        provides=frozenset({"labels", "binary_labels", "images"}),
        reads=no_files,
    )
