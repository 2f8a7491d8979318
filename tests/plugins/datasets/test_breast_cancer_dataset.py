import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer

from drobench_plugins.datasets.breast_cancer import BreastCancerConfig, entry, load_breast_cancer_dataset


def test_everything_is_there_with_malignant_as_the_positive_class():
    dataset = load_breast_cancer_dataset(BreastCancerConfig(split=[1, 0, 0], standardize=False))
    source = load_breast_cancer()
    assert dataset.train.features.shape == (569, 30)
    assert dataset.train.labels.bincount().tolist() == [357, 212]
    malignant = source.target_names.tolist().index("malignant")
    np.testing.assert_array_equal(dataset.train.labels.numpy() == 1, source.target == malignant)
    np.testing.assert_array_equal(dataset.train.features.numpy(), source.data)
    assert dataset.feature_names[0] == "mean radius"
    assert len(dataset.feature_names) == 30


def test_the_default_split_is_stratified():
    dataset = load_breast_cancer_dataset(BreastCancerConfig())
    splits = (dataset.train, dataset.validation, dataset.test)
    assert [split.rows for split in splits if split is not None] == [341, 114, 114]
    for split in splits:
        assert split is not None
        assert split.labels.double().mean().item() == pytest.approx(212 / 569, abs=1 / split.rows)
    assert dataset.rows == 569


def test_training_rows_are_standardized():
    features = load_breast_cancer_dataset(BreastCancerConfig(seed=2)).train.features
    torch.testing.assert_close(features.mean(dim=0), torch.zeros(30, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(features.std(dim=0, unbiased=False), torch.ones(30, dtype=torch.float64))


def test_the_seed_fixes_the_checksum():
    first, again, other = (load_breast_cancer_dataset(BreastCancerConfig(seed=seed)).sha256 for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_the_entry_promises_what_the_dataset_provides():
    described = entry()
    dataset = described.factory(described.config())
    assert dataset.name == described.name == "breast_cancer"
    assert dataset.provides == described.provides
    assert dataset.twin is False
