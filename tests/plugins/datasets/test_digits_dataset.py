import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from drobench.data.dataset import Split
from drobench.errors import SettingError
from drobench_plugins.datasets.digits import DigitsConfig, entry, load_digits_dataset

COUNTS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def whole(**settings) -> Split:
    """All rows as they came."""
    return load_digits_dataset(DigitsConfig(split=[1, 0, 0], standardize=False, **settings)).train


def test_everything_is_there_with_ten_classes():
    dataset = load_digits_dataset(DigitsConfig(split=[1, 0, 0], standardize=False))
    source = load_digits()
    assert dataset.train.features.shape == (1797, 64)
    assert dataset.classes == 10
    assert dataset.provides == {"labels", "images"}
    assert dataset.train.labels.bincount().tolist() == COUNTS
    np.testing.assert_array_equal(dataset.train.features.numpy(), source.data)
    np.testing.assert_array_equal(dataset.train.labels.numpy(), source.target)
    assert len(set(dataset.feature_names)) == 64
    assert dataset.feature_names[:2] == ("pixel_0_0", "pixel_0_1")


@pytest.mark.parametrize("chosen", [[3], [3, 8], [8, 3, 8], [0, 2, 4, 6, 8], [1, 2, 3, 4, 5, 6, 7, 8, 9]])
def test_positive_classes_make_two_classes_with_the_right_rows(chosen):
    dataset = load_digits_dataset(DigitsConfig(split=[1, 0, 0], standardize=False, positive_classes=chosen))
    positive = sum(COUNTS[digit] for digit in set(chosen))
    assert dataset.classes == 2
    assert dataset.provides == {"labels", "binary_labels", "images"}
    assert dataset.train.labels.bincount().tolist() == [1797 - positive, positive]
    np.testing.assert_array_equal(dataset.train.labels.numpy() == 1, np.isin(load_digits().target, chosen))


def test_the_choice_of_classes_leaves_the_features_alone():
    assert torch.equal(whole().features, whole(positive_classes=[3, 8]).features)


@pytest.mark.parametrize("chosen", [[], [10], [-1], [3, 11], list(range(10))])
def test_impossible_positive_classes_are_refused(chosen):
    with pytest.raises(SettingError, match=r"between one and nine digits from 0 to 9.*dataset\.positive_classes="):
        DigitsConfig(positive_classes=chosen)


def test_the_settings_of_every_dataset_are_checked_as_well():
    with pytest.raises(SettingError, match="split"):
        DigitsConfig(split=[0, 0.5, 0.5], positive_classes=[3])


@pytest.mark.parametrize("chosen", [None, [3, 8]])
def test_the_default_split_is_stratified(chosen):
    dataset = load_digits_dataset(DigitsConfig(positive_classes=chosen))
    assert dataset.rows == 1797
    labels = whole(positive_classes=chosen).labels
    shares = labels.bincount() / labels.numel()
    for split, fraction in ((dataset.train, 0.6), (dataset.validation, 0.2), (dataset.test, 0.2)):
        assert split is not None
        assert abs(split.rows - 1797 * fraction) <= 1
        assert (split.labels.bincount() - shares * split.rows).abs().max() <= 1.5


def test_pixels_that_are_always_white_do_no_harm():
    dataset = load_digits_dataset(DigitsConfig())
    for split in (dataset.train, dataset.validation, dataset.test):
        assert split is not None
        assert split.features.isfinite().all()
    assert dataset.train.features[:, 0].abs().max() == 0
    assert dataset.feature_scale[0] == 1


def test_the_seed_and_the_choice_of_classes_fix_the_checksum():
    configs = [{}, {}, {"seed": 1}, {"positive_classes": [3]}, {"positive_classes": [8]}, {"positive_classes": [8]}]
    first, again, other_seed, three, eight, eight_again = (
        load_digits_dataset(DigitsConfig(**config)).sha256 for config in configs
    )
    assert first == again
    assert eight == eight_again
    assert len({first, other_seed, three, eight}) == 4


def test_the_entry_promises_at_least_what_the_dataset_provides():
    described = entry()
    for chosen in (None, [3]):
        dataset = described.factory(described.config(positive_classes=chosen))
        assert dataset.name == described.name == "digits"
        assert dataset.provides <= described.provides
        assert dataset.twin is False


def test_a_run_goes_from_configuration_to_record(run, tmp_path):
    from drobench import load_solution

    record = run("dataset=digits", "dataset.split=[0.1,0.1,0.8]", "budget=smoke", results=tmp_path / "results")
    assert record.status == "budget_spent"
    model = load_solution(record.run_id, results=tmp_path / "results")
    assert model.classes == 10
    assert set(model.predict(load_digits().data)) <= set(range(10))
