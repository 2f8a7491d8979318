"""`drobench pack`, `verify` and `merge`: results that travel."""

import os

import pytest
from app_samples import altered, unsealed

from drobench.results.store import ResultStore


class TestMerge:
    def test_bundles_and_folders_are_joined(self, finished, bundle, command, tmp_path):
        folder, runs = finished
        other = tmp_path / "other"
        outcome = command("merge", bundle, folder, "--results", other)
        assert outcome.code == 0
        assert "3 runs added, 0 failed ones replaced, 3 there already" in outcome.out
        assert {record.run_id for record in ResultStore(other).records().records} == {
            record.run_id for record in runs.values()
        }
        assert command("verify", other).code == 0

    def test_a_folder_is_not_merged_into_itself(self, finished, command):
        assert "is the folder to merge into" in command("merge", finished[0], "--results", finished[0]).err

    def test_results_that_differ_end_with_a_code(self, finished, bundle, command):
        folder, runs = finished
        altered(folder, runs["scgd"].run_id, lambda content: content["iterates"]["last"].update(objective=0.5))
        outcome = command("merge", bundle, "--results", folder)
        assert outcome.code == 1
        assert "the one here was kept" in outcome.out


def test_packing_nothing_is_an_error(command, tmp_path):
    outcome = command("pack", tmp_path / "none", "-o", tmp_path / "bundle.zip")
    assert outcome.code == 2
    assert "no run in" in outcome.err
    assert not (tmp_path / "bundle.zip").exists()


class TestStrangers:
    @pytest.mark.parametrize("name", ["verify", "merge"])
    def test_what_is_no_file_is_a_message(self, command, tmp_path, results, name):
        os.mkfifo(tmp_path / "pipe")
        for path in ("/dev/zero", tmp_path / "pipe", tmp_path / "nothing"):
            ended = command(name, path, *(["--results", results] if name == "merge" else []))
            assert ended.code == 1
            assert "a pipe or a device" in ended.out + ended.err or "There is no file" in ended.out + ended.err

    def test_a_folder_without_runs_has_nothing_to_verify(self, command, tmp_path):
        ended = command("verify", tmp_path)
        assert ended.code == 2
        assert "There is no run in" in ended.err

    def test_a_bad_bundle_does_not_keep_the_next_one_out(self, command, bundle, tmp_path):
        (tmp_path / "bad.zip").write_bytes(b"PK")
        ended = command("merge", tmp_path / "bad.zip", bundle, "--results", tmp_path / "joined")
        assert ended.code == 1
        assert "bad.zip must be a zip archive" in ended.out
        assert "3 runs added" in ended.out

    def test_a_name_with_escapes_is_damage_and_is_shown(self, command, finished):
        folder, runs = finished
        record = runs["scgd"]
        unsealed(folder / record.run_id)
        file = folder / record.run_id / "record.json"
        file.write_text(file.read_text().replace('"scgd"', '"\\u001b[2K\\u001b[1Asgd"'))
        ended = command("verify", folder)
        assert ended.code == 1
        assert "1 runs damaged" in ended.out
        assert "\x1b" not in ended.out
        assert "x1b[2K" in ended.out

    def test_a_bundle_is_no_folder(self, command, finished, tmp_path):
        ended = command("pack", finished[0], "-o", tmp_path)
        assert ended.code == 2
        assert "is a folder. Name a file in it" in ended.err
