"""The packages that runs come from, and the checksums of their sources."""

import importlib

from drobench.app.plugin_sources import plugins_of, source_checksum
from drobench.registry import load_catalogue


def test_each_package_is_named_once_with_its_version(finished, catalogue):
    (found,) = plugins_of(list(finished[1].values()), catalogue)
    record = finished[1]["gcivr"]
    assert (found.distribution, found.version) == (record.solver.distribution, record.solver.version)
    assert found.sha256 == source_checksum("drobench", catalogue)
    assert plugins_of([], catalogue) == []


def test_a_package_that_is_not_here_has_no_checksum(catalogue):
    assert source_checksum("somebody-elses", catalogue) is None


def test_the_checksum_follows_the_source(misbehaving):
    before = source_checksum("stranger", load_catalogue())
    assert len(before) == 64
    file = misbehaving / "misbehaving_guests.py"
    file.write_text(file.read_text() + "# changed\n")
    importlib.invalidate_caches()
    assert source_checksum("stranger", load_catalogue()) != before
    file.write_text(file.read_text().removesuffix("# changed\n"))
    assert source_checksum("stranger", load_catalogue()) == before
