"""Stored results computed again: what is honest is confirmed, every embellishment is named."""

import json
import shutil

import pytest
from app_samples import altered


class TestVerify:
    def test_honest_results_are_confirmed(self, bundle, command):
        outcome = command("verify", bundle, "--rerun", 1)
        assert outcome.code == 0, outcome.out
        assert "4 of 4 checks confirmed (of which 1 done again as a whole), 0 wrong" in outcome.out

    def test_a_folder_can_be_verified_as_it_is(self, finished, command):
        assert command("verify", finished[0]).code == 0

    @pytest.mark.parametrize(
        ("path", "value", "named"),
        [
            (("iterates", "last", "objective"), 0.01, "last.objective: recorded 0.01"),
            (("iterates", "last", "gap"), 1e-9, "last.gap: recorded 1e-09"),
            (("iterates", "last", "test_error"), 0.0, "last.test_error: recorded 0.0"),
            (("iterates", "best_feasible", "train_error"), 0.0, "best_feasible.train_error: recorded 0.0"),
            (("iterates", "last", "stationarity"), 1e-30, "last.stationarity: recorded 1e-30"),
            (("iterates", "last", "feasible"), False, "last.feasible: recorded False"),
            (("optimum", "value"), 0.1, "optimum.value: recorded 0.1"),
            (("seed",), 5, "seed: recorded 5"),
            (("outcome",), "worse_than_start", "outcome: recorded 'worse_than_start', recomputed 'ok'"),
            (("solver", "config", "step_scale"), 9.0, "solver.config: recorded"),
            (("problem", "config", "gamma"), 9.0, "problem.config: recorded"),
            (("dataset", "sha256"), "0" * 64, "dataset.sha256: recorded"),
            (("oracle", "inner_values"), 1, "oracle.inner_values: recorded 1"),
        ],
        ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
    )
    def test_every_embellishment_is_named(self, finished, command, path, value, named):
        folder, runs = finished

        def change(content):
            *way, last = path
            for name in way:
                content = content[name]
            assert content[last] != value
            content[last] = value

        altered(folder, runs["gcivr"].run_id, change)
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert named in outcome.out
        assert runs["gcivr"].short_id in outcome.out
        assert "2 of 3 checks confirmed" in outcome.out

    def test_the_solution_of_another_run_is_seen(self, finished, command):
        folder, runs = finished
        shutil.copy(
            folder / runs["scgd"].run_id / "solution.safetensors",
            folder / runs["gcivr"].run_id / "solution.safetensors",
        )
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert "last.objective" in outcome.out

    def test_a_run_under_another_id_is_seen(self, finished, command):
        """A record for a configuration with another seed, although nobody ever ran it."""
        folder, runs = finished
        run_id = runs["gcivr"].run_id
        altered(folder, run_id, lambda content: content.update(seed=5))
        config = folder / run_id / "config.yaml"
        config.write_text(config.read_text().replace("\nseed: 4", "\nseed: 5"))
        outcome = command("verify", folder)
        assert f"run_id: recorded '{run_id}'" in outcome.out

    def test_doing_a_run_again_shows_what_recomputing_cannot(self, finished, command):
        """Another run's solution with its scores: consistent, but not what these settings lead to."""
        folder, runs = finished
        target, donor = runs["gcivr"].run_id, runs["scgd"].run_id
        shutil.copy(folder / donor / "solution.safetensors", folder / target / "solution.safetensors")
        scores = json.loads((folder / donor / "record.json").read_text())["iterates"]
        altered(folder, target, lambda content: content.update(iterates=scores))
        assert command("verify", folder).code == 0
        outcome = command("verify", folder, "--rerun", 3)
        assert outcome.code == 1
        assert "rerun: last.objective" in outcome.out

    def test_a_plugin_that_is_not_here_leaves_the_run_open(self, finished, command):
        folder, runs = finished
        config = folder / runs["gcivr"].run_id / "config.yaml"
        config.write_text(config.read_text().replace("name: gcivr", "name: somebody_elses"))
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert "1 could not be made" in outcome.out
        assert "There is no solver called 'somebody_elses'" in outcome.out

    def test_a_damaged_run_is_reported_beside_the_sound_ones(self, finished, command):
        folder, runs = finished
        (folder / runs["gcivr"].run_id / "curve.parquet").write_bytes(b"PAR1")
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert "2 of 2 checks confirmed" in outcome.out
        assert "1 runs damaged" in outcome.out

    def test_names_from_strangers_are_plain_text(self, finished, command):
        folder, runs = finished
        altered(folder, runs["gcivr"].run_id, lambda content: content["solver"].update(name="[red]x[/red]"))
        assert "[red]x[/red]" in command("verify", folder).out

    def test_what_is_no_bundle_is_refused(self, command, tmp_path):
        (tmp_path / "no.zip").write_text("hello")
        outcome = command("verify", tmp_path / "no.zip")
        assert outcome.code == 1
        assert "must be a zip archive" in outcome.err

    def test_an_empty_folder_is_nothing_to_verify(self, command, tmp_path):
        assert "no run in" in command("verify", tmp_path).err
