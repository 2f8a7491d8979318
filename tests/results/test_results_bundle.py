"""Bundles: what goes in comes out, and nothing that a stranger put in does any harm."""

import hashlib
import io
import json
import os
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import polars
import pytest
from result_samples import CONFIG, SOLUTION, make_curve, make_record

from drobench.errors import DrobenchError
from drobench.results import contents
from drobench.results.bundle import FILES, MANIFEST, BadBundle, Limits, Plugin, pack, packages_of, unpack
from drobench.results.record import Component, Iterate, Status
from drobench.results.store import ResultStore


@pytest.fixture
def store(tmp_path):
    """Three runs, one of them failed."""
    filled = ResultStore(tmp_path / "results")
    for seed in (0, 1):
        record = make_record(seed=seed, iterate=Iterate(objective=1.0 + seed, feasible=True, step=3))
        filled.write(record, make_curve([2.0, 1.0 + seed]), SOLUTION, CONFIG)
    filled.write(make_record(seed=2, status=Status.FAILED, reason="<b>it broke</b>"), polars.DataFrame(), {}, CONFIG)
    return filled


@pytest.fixture
def bundle(store, tmp_path):
    pack(store.root, store.records().records, tmp_path / "bundle.zip")
    return tmp_path / "bundle.zip"


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "unpacked"
    folder.mkdir()
    return folder


def rewritten(bundle, changes, *, rehash=True, attributes=None):
    """Return another archive in which some files have other contents (`None`: they are gone), with right checksums."""
    with zipfile.ZipFile(bundle) as source:
        files = {name: source.read(name) for name in source.namelist()}
    files.update(changes)
    files = {name: content for name, content in files.items() if content is not None}
    if rehash:
        manifest = json.loads(files[MANIFEST])
        manifest["files"] = {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            for name, content in files.items()
            if name != MANIFEST
        }
        files[MANIFEST] = json.dumps(manifest).encode()
    other = bundle.with_name("other.zip")
    with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (attributes or {}).get(name, 0o644 << 16)
            target.writestr(entry, content)
    return other


class TestRoundTrip:
    def test_every_run_comes_out_byte_for_byte(self, store, bundle, root):
        unpack(bundle, root)
        for record in store.records().records:
            for name in FILES:
                assert (root / record.run_id / name).read_bytes() == (store.root / record.run_id / name).read_bytes()
        assert [record.run_id for record in ResultStore(root).records().records] == [
            record.run_id for record in store.records().records
        ]

    def test_the_manifest_says_what_made_the_results(self, bundle, root):
        manifest = unpack(bundle, root)
        assert manifest["runs"] == 3
        assert manifest["plugins"] == [{"distribution": "drobench", "version": "0.1.0", "code": []}]
        assert manifest["datasets"] == [{"name": "tiny", "sha256": "a" * 64, "rows": 4, "twin": False}]
        assert manifest["environments"][0]["hardware"] == "one machine"

    def test_packages_are_listed_with_the_code_that_made_the_runs(self):
        other = Component(name="theirs", config={}, distribution="a-stranger", version="2.0")
        first, second = make_record(seed=0), make_record(seed=1)
        first = replace(first, solver=other, code={"drobench": "c" * 64, "a-stranger": "d" * 64})
        second = replace(second, code={"drobench": "e" * 64})
        assert packages_of([second, first]) == [
            Plugin("a-stranger", "2.0", ("d" * 64,)),
            Plugin("drobench", "0.1.0", ("c" * 64, "e" * 64)),
        ]

    def test_the_same_results_make_the_same_bytes(self, store, bundle, tmp_path):
        pack(store.root, list(reversed(store.records().records)), tmp_path / "again.zip")
        assert (tmp_path / "again.zip").read_bytes() == bundle.read_bytes()

    def test_nothing_to_pack_is_said(self, tmp_path):
        with pytest.raises(DrobenchError, match=r"no run in .* to pack"):
            pack(tmp_path, [], tmp_path / "bundle.zip")
        assert not (tmp_path / "bundle.zip").exists()

    def test_a_failure_on_the_way_leaves_no_file(self, store, tmp_path):
        records = store.records().records
        (store.root / records[-1].run_id / "curve.parquet").unlink()
        with pytest.raises(FileNotFoundError):
            pack(store.root, records, tmp_path / "bundle.zip")
        assert [file.name for file in tmp_path.iterdir()] == ["results"]


class TestStrangers:
    def test_other_names_are_refused_and_nothing_is_written(self, bundle, root):
        for name in (
            "../escaped.json",
            "/tmp/escaped.json",
            "runs/../../escaped.json",
            f"runs/{'a' * 64}/../{'b' * 64}/record.json",
            f"runs/{'a' * 64}/payload.pickle",
            f"runs/{'A' * 64}/record.json",
            f"runs/{'a' * 64}/",
            f"runs\\{'a' * 64}\\record.json",
            f"runs/{'a' * 64}/record.json\n",
            "setup.py",
        ):
            with pytest.raises(BadBundle, match=r"names are manifest\.json and runs/RUN_ID/FILE") as caught:
                unpack(rewritten(bundle, {name: b"{}"}), root)
            assert repr(name) in str(caught.value)
            assert not list(root.iterdir())
            assert not (root.parent / "escaped.json").exists()

    @pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR])
    def test_links_and_devices_are_refused(self, bundle, root, kind):
        with zipfile.ZipFile(bundle) as archive:
            name = archive.namelist()[0]
        with pytest.raises(BadBundle, match="must be a plain file"):
            unpack(rewritten(bundle, {}, attributes={name: (kind | 0o777) << 16}), root)

    def test_a_changed_file_is_named(self, bundle, root):
        with zipfile.ZipFile(bundle) as archive:
            name = next(name for name in archive.namelist() if name.endswith("record.json"))
        with pytest.raises(BadBundle, match=rf"{name} must have the sha256"):
            unpack(rewritten(bundle, {name: b"{}"}, rehash=False), root)

    def test_a_missing_and_a_further_file_are_named(self, bundle, root):
        with zipfile.ZipFile(bundle) as archive:
            name = next(name for name in archive.namelist() if name.endswith("config.yaml"))
        further = f"runs/{'d' * 64}/config.yaml"
        with pytest.raises(BadBundle, match=rf"missing: {name}; too many: {further}"):
            unpack(rewritten(bundle, {name: None, further: b""}, rehash=False), root)

    def test_a_bomb_stops_at_the_limit_whatever_its_header_says(self, bundle, root):
        name = f"runs/{'e' * 64}/config.yaml"
        bomb = rewritten(bundle, {name: b"0" * 3_000_000})
        with pytest.raises(BadBundle, match=rf"{name} has more than the 1000000 bytes"):
            unpack(bomb, root, Limits(file_bytes=1_000_000))
        with pytest.raises(BadBundle, match="bytes that are read of it"):
            unpack(bomb, root, Limits(total_bytes=1_000_000))

    def test_too_many_files_are_refused(self, bundle, root):
        with pytest.raises(BadBundle, match="has 13 files; more than 5"):
            unpack(bundle, root, Limits(files=5))

    def test_a_name_that_occurs_twice_is_refused(self, bundle, root):
        with zipfile.ZipFile(bundle, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(MANIFEST, b"{}")
        with pytest.raises(BadBundle, match=r"holds 'manifest.json' twice"):
            unpack(bundle, root)

    @pytest.mark.parametrize(
        ("manifest", "message"),
        [
            (b"not json", "must be JSON"),
            (b"[" * 10_000, "must be JSON"),
            (b"[]", "an object with a `format`"),
            (b'{"format": 99}', "has format 99; this version of drobench reads format 1"),
            (b'{"format": 1}', "must list its `files`"),
            (b'{"format": 1, "files": {"x": 3}}', "must list its `files`"),
        ],
    )
    def test_a_broken_manifest_is_explained(self, bundle, root, manifest, message):
        with pytest.raises(BadBundle, match=message):
            unpack(rewritten(bundle, {MANIFEST: manifest}, rehash=False), root)

    def test_what_is_no_archive_is_refused(self, bundle, root, tmp_path):
        other = tmp_path / "other.zip"
        with pytest.raises(BadBundle, match="There is no file"):
            unpack(other, root)
        other.write_bytes(b"PK\x03\x04 and then nothing")
        with pytest.raises(BadBundle, match="must be a zip archive made by `drobench pack`"):
            unpack(other, root)
        empty = io.BytesIO()
        zipfile.ZipFile(empty, "w").close()
        other.write_bytes(empty.getvalue())
        with pytest.raises(BadBundle, match=r"must hold manifest\.json"):
            unpack(other, root)
        other.write_bytes(bundle.read_bytes()[:-40])
        with pytest.raises(BadBundle, match="must be a zip archive"):
            unpack(other, root)

    def test_damaged_compression_is_explained(self, bundle, root):
        """Bytes within a compressed file, where the list of files is still sound."""
        with zipfile.ZipFile(bundle) as archive:
            entry = archive.infolist()[0]
        content = bytearray(bundle.read_bytes())
        begin = entry.header_offset + 30 + len(entry.filename)
        content[begin : begin + 40] = b"\xff" * 40
        bundle.write_bytes(content)
        with pytest.raises(BadBundle, match="must be a zip archive"):
            unpack(bundle, root)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("plugins", None),
            ("plugins", {"distribution": "x"}),
            ("plugins", ["drobench"]),
            ("plugins", [{"distribution": 3, "version": None, "sha256": None}]),
            ("plugins", [{"distribution": "x", "version": [], "sha256": None}]),
            ("files", []),
            ("files", {"x": {"sha256": None}}),
            ("files", {"x": {"sha256": ["a" * 64]}}),
            ("files", {"x": {"sha256": "a" * 63}}),
        ],
    )
    def test_a_manifest_of_another_shape_is_named(self, bundle, root, field, value):
        with zipfile.ZipFile(bundle) as archive:
            manifest = json.loads(archive.read(MANIFEST))
        changed = json.dumps(manifest | {field: value}).encode()
        with pytest.raises(BadBundle, match=rf"manifest\.json must list its `{field}`"):
            unpack(rewritten(bundle, {MANIFEST: changed}, rehash=False), root)

    @pytest.mark.parametrize("file", FILES)
    def test_each_kind_of_file_has_its_own_limit(self, bundle, root, file, monkeypatch):
        monkeypatch.setitem(contents.LARGEST, file, 100_000)
        name = f"runs/{'e' * 64}/{file}"
        with pytest.raises(BadBundle, match=rf"{file} has more than the 100000 bytes"):
            unpack(rewritten(bundle, {name: bytes(100_001)}), root)

    @pytest.mark.parametrize("manifest", [b" " * ((1 << 20) + 2049 * 13), b"[" + b"[]," * 30_000 + b"[]]"])
    def test_a_manifest_is_no_larger_than_its_files_need(self, bundle, root, manifest):
        """A list of empty lists takes thirty times its length in memory."""
        with pytest.raises(
            BadBundle, match=r"manifest\.json has (more than the \d+ bytes|far more parts than 13 files)"
        ):
            unpack(rewritten(bundle, {MANIFEST: manifest}, rehash=False), root)

    def test_what_is_no_file_is_not_read(self, root, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
            with pytest.raises(BadBundle, match="found a folder, a pipe or a device"):
                unpack(path, root)
