"""`drobench pack`, `verify` and `merge`: results that travel."""

from app_samples import altered

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
