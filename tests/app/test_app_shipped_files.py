"""Where the files lie that come with the code."""

import pytest

from drobench.app import config
from drobench.app.shipped_files import data_dir


@pytest.mark.parametrize(
    "file", ["conf/run.yaml", "conf/estimators.yaml", "conf/budget/default.yaml", "sweeps/quickstart.yaml"]
)
def test_what_is_shipped_is_found_from_anywhere(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, _, rest = file.partition("/")
    assert data_dir(folder).is_absolute()
    assert (data_dir(folder) / rest).is_file()


def test_the_configuration_reads_the_same_folder():
    assert config.data_dir is data_dir
