"""Finding the texts of a fold in folders and archives."""

import pytest
from letor_samples import LINE, folds, write

from drobench.data.dataset import DataError
from drobench_plugins.datasets.letor_sources import find_folds


def test_folds_are_found_by_their_names(tmp_path):
    folds(tmp_path / "MSLR-WEB10K")
    write(tmp_path / "MSLR-WEB10K" / "Fold2" / "train.txt", LINE)
    write(tmp_path / "MSLR-WEB10K" / "readme.txt", "hello")
    found = find_folds(tmp_path)
    assert {number: sorted(fold) for number, fold in found.items()} == {
        1: ["test", "train", "validation"],
        2: ["train"],
    }


def test_slices_with_the_fold_in_their_name_are_found(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / f"msn1.fold1.{split}.5k.txt", LINE)
    assert sorted(find_folds(tmp_path)[1]) == ["test", "train"]


def test_a_folder_without_training_text_is_refused(tmp_path):
    write(tmp_path / "Fold1" / "test.txt", LINE)
    with pytest.raises(DataError, match=r"a training text, such as Fold1/train\.txt, is needed"):
        find_folds(tmp_path)
    with pytest.raises(DataError, match="there is no folder or archive"):
        find_folds(tmp_path / "nowhere")


def test_two_texts_that_could_be_meant_are_refused(tmp_path):
    write(tmp_path / "10K" / "Fold1" / "train.txt", LINE)
    write(tmp_path / "30K" / "Fold1" / "train.txt", LINE)
    with pytest.raises(DataError, match="one fold 1 is needed"):
        find_folds(tmp_path)
    write(tmp_path / "10K" / "Fold1" / "train.more.txt", LINE)
    with pytest.raises(DataError, match="one train text is needed"):
        find_folds(tmp_path / "10K")
