"""Loading data: as the dataset gives them, and once for runs in a row on the same."""

import pytest

from drobench.app.loading import LastDataset, load_dataset
from drobench.registry import UnknownName


def test_data_are_what_the_dataset_makes_of_its_settings(configure, catalogue):
    assert load_dataset(configure(), catalogue).rows == 60
    assert load_dataset(configure("dataset.rows=80"), catalogue).rows == 80


def test_the_last_data_are_kept_for_the_next_run_on_the_same(configure, catalogue):
    datasets = LastDataset()
    first = datasets.load(configure("seed=1"), catalogue)
    assert datasets.load(configure("seed=2", "solver=scgd"), catalogue) is first
    other = datasets.load(configure("dataset.seed=1"), catalogue)
    assert other.sha256 != first.sha256
    # Only one is kept.
    again = datasets.load(configure("seed=1"), catalogue)
    assert again is not first
    assert again.sha256 == first.sha256


def test_two_who_load_share_nothing(configure, catalogue):
    config = configure()
    assert LastDataset().load(config, catalogue) is not LastDataset().load(config, catalogue)


def test_data_that_cannot_be_had_do_not_displace_those_that_are_there(configure, catalogue):
    datasets = LastDataset()
    config = configure()
    first = datasets.load(config, catalogue)
    missing = configure()
    missing.dataset.name = "nowhere"
    with pytest.raises(UnknownName, match="nowhere"):
        datasets.load(missing, catalogue)
    assert datasets.load(config, catalogue) is first
