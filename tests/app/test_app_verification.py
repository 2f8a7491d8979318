"""Stored results computed again: what is honest is confirmed, every embellishment is named."""

import json
import shutil

import polars
import pytest
from app_samples import SMALL, altered, resealed

from drobench.results.record import content_id


def forged_curve(folder, run_id, column, row, difference=0.001):
    """Change one number of a curve, as a forger would who knows of checksums."""
    file = folder / run_id / "curve.parquet"
    curve = polars.read_parquet(file)
    values = curve[column].to_list()
    values[row] += difference if isinstance(values[row], float) else 1000
    curve.with_columns(polars.Series(column, values)).write_parquet(file)
    resealed(folder, run_id)


class TestVerify:
    def test_honest_results_are_confirmed(self, bundle, command):
        outcome = command("verify", bundle, "--rerun", 1)
        assert outcome.code == 0, outcome.out
        assert "4 of 4 checks confirmed, 0 wrong" in outcome.out
        assert "(--rerun N): 1 of 3." in outcome.out

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
            (("outcome",), "worse_than_start", "outcome: recorded 'worse_than_start', found 'ok'"),
            (("solver", "config", "step_scale"), 9.0, "solver.config: recorded"),
            (("problem", "config", "gamma"), 9.0, "problem.config: recorded"),
            (("dataset", "sha256"), "0" * 64, "dataset.sha256: recorded"),
            (("oracle", "inner_values"), 1, "oracle.inner_values: recorded 1"),
            (("oracle", "passes"), 0.5, "oracle.passes: recorded 0.5"),
            (("iterates", "last", "extra", "test_worst_class_error"), 0.0, "last.test_worst_class_error: recorded 0.0"),
            (
                ("metrics", "worst_class_error"),
                {"better": "more", "unit": "share"},
                "metrics.worst_class_error.better: recorded 'more', found 'less'",
            ),
            (("iterates", "last", "step"), 77, "last.step, in the curve: recorded 77"),
            (("iterates", "best_feasible", "objective"), 0.01, "best_feasible.objective"),
            (("seconds", "solver"), 1e-9, "seconds.solver: recorded 1e-09"),
            (("status",), "converged", "status: recorded"),
            (("communication", "bytes"), 7, "communication.bytes: recorded 7"),
            (("asked", "seed"), 5, "asked.seed: recorded 5"),
            (("budget", "passes"), 60.0, "budget: recorded"),
            (("model", "intercept"), False, "model: recorded"),
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

    def test_a_metric_that_the_problem_does_not_have_is_named(self, finished, command):
        folder, runs = finished
        altered(folder, runs["gcivr"].run_id, lambda content: content["iterates"]["last"]["extra"].update(fame=0.0))
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert "last.fame: recorded 0.0, found 'no metric of this problem'" in outcome.out

    def test_a_changed_file_is_damage(self, finished, command):
        folder, runs = finished
        shutil.copy(
            folder / runs["scgd"].run_id / "config.yaml",
            folder / runs["gcivr"].run_id / "config.yaml",
        )
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert "1 runs damaged" in outcome.out
        assert "2 of 2 checks confirmed" in outcome.out

    def test_the_solution_of_another_run_is_seen(self, finished, command):
        folder, runs = finished
        shutil.copy(
            folder / runs["scgd"].run_id / "solution.safetensors",
            folder / runs["gcivr"].run_id / "solution.safetensors",
        )
        resealed(folder, runs["gcivr"].run_id)
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert "last.objective" in outcome.out

    def test_a_run_under_another_id_is_seen(self, finished, command):
        """A record for a configuration with another seed, although nobody ever ran it."""
        folder, runs = finished
        run_id = runs["gcivr"].run_id

        def change(content):
            content["seed"] = content["asked"]["seed"] = 5

        config = folder / run_id / "config.yaml"
        config.write_text(config.read_text().replace("\nseed: 4", "\nseed: 5"))
        altered(folder, run_id, change)
        outcome = command("verify", folder)
        assert f"run_id: recorded '{run_id}'" in outcome.out

    def test_a_setting_that_nobody_asked_for_is_seen(self, finished, command):
        """Other settings than the defaults, in record and configuration alike, under the id of the defaults."""
        folder, runs = finished
        run_id = runs["gcivr"].run_id
        config = folder / run_id / "config.yaml"
        config.write_text(config.read_text().replace("step_scale: 1.0", "step_scale: 0.5"))
        altered(folder, run_id, lambda content: content["solver"]["config"].update(step_scale=0.5))
        outcome = command("verify", folder)
        assert "solver.step_scale, not asked for: recorded 0.5, found 1.0" in outcome.out

    @pytest.mark.parametrize(
        ("column", "row", "named"),
        [
            ("objective", 0, "curve: objective at the start"),
            ("objective", 2, "curve: gap at step"),
            ("gap", 1, "curve: gap at step"),
            ("gap", -1, "last.gap, in the curve"),
            ("passes", 2, "curve: passes"),
            ("sample_calls", 1, "curve: "),
            ("step", 1, "curve: step"),
            ("test_error", -1, "last.test_error, in the curve"),
        ],
    )
    def test_a_forged_curve_is_named(self, finished, command, column, row, named):
        folder, runs = finished
        forged_curve(folder, runs["scgd"].run_id, column, row)
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert named in outcome.out

    def test_doing_a_run_again_shows_a_curve_forged_to_fit(self, finished, command):
        """Objective and gap of a middle row, one fitting the other: only the run itself can tell."""
        folder, runs = finished
        run_id = runs["scgd"].run_id
        # An iterate that is not better than the best one, or that would be seen.
        forged_curve(folder, run_id, "objective", 1, 0.003)
        forged_curve(folder, run_id, "gap", 1, 0.003)
        assert command("verify", folder).code == 0
        outcome = command("verify", folder, "--rerun", 3)
        assert outcome.code == 1
        assert "curve: objective at step" in outcome.out
        assert "curve: gap at step" in outcome.out

    def test_a_solver_that_is_not_here_is_not_needed(self, finished, command):
        folder, runs = finished
        run_id = runs["gcivr"].run_id
        config = folder / run_id / "config.yaml"
        config.write_text(config.read_text().replace("name: gcivr", "name: somebody_elses"))

        def change(content):
            content["solver"].update(name="somebody_elses", distribution="theirs")
            content["asked"]["solver"]["name"] = "somebody_elses"
            content["asked"]["plugins"]["solver"][0] = "theirs"
            content["run_id"] = content_id(content["asked"])

        altered(folder, run_id, change)
        (folder / run_id).rename(folder / json.loads((folder / run_id / "record.json").read_text())["run_id"])
        outcome = command("verify", folder)
        assert outcome.code == 0, outcome.out
        assert "3 of 3 checks confirmed" in outcome.out
        again = command("verify", folder, "--rerun", 3)
        assert again.code == 1
        assert "There is no solver called 'somebody_elses'" in again.out
        assert "5 of 6 checks confirmed, 0 wrong, 1 could not be made" in again.out

    def test_a_problem_that_is_not_here_leaves_the_run_open(self, finished, command):
        folder, runs = finished
        run_id = runs["gcivr"].run_id
        config = folder / run_id / "config.yaml"
        config.write_text(config.read_text().replace("name: kl_classification", "name: somebody_elses"))
        resealed(folder, run_id)
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert "1 could not be made" in outcome.out
        assert "There is no problem called 'somebody_elses'" in outcome.out

    def test_a_recorded_failure_is_no_reason_to_complain(self, finished, command, misbehaving):
        folder, _ = finished
        command("run", *SMALL, "solver=raising", f"results={folder}")
        outcome = command("verify", folder)
        assert outcome.code == 0, outcome.out
        assert "3 of 3 checks confirmed, 0 wrong, 0 could not be made, 0 runs damaged" in outcome.out
        assert "1 runs are recorded failures" in outcome.out
        assert "it failed without a solution (ValueError: the guest has had enough)" in outcome.out

    def test_more_processes_than_there_are_cores_are_not_started(self, finished, command):
        folder, runs = finished
        run_id = runs["gcivr"].run_id
        config = folder / run_id / "config.yaml"
        config.write_text(config.read_text().replace("  devices: 1\n", "  devices: 5000\n"))
        altered(folder, run_id, lambda content: content["trainer"].update(devices=5000))
        outcome = command("verify", folder, "--rerun", 3)
        assert "it asks for 5000 processes or threads, and this machine has" in outcome.out

    def test_one_odd_run_hides_no_verdict(self, finished, command):
        folder, runs = finished
        (folder / runs["gcivr"].run_id / "config.yaml").write_text("dataset: [1]\n")
        resealed(folder, runs["gcivr"].run_id)
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert "2 of 3 checks confirmed, 0 wrong, 1 could not be made" in outcome.out

    def test_a_damaged_run_is_reported_beside_the_sound_ones(self, finished, command):
        folder, runs = finished
        (folder / runs["gcivr"].run_id / "curve.parquet").write_bytes(b"PAR1")
        outcome = command("verify", folder)
        assert outcome.code == 1
        assert "2 of 2 checks confirmed" in outcome.out
        assert "1 runs damaged" in outcome.out

    def test_what_is_no_bundle_is_refused(self, command, tmp_path):
        (tmp_path / "no.zip").write_text("hello")
        outcome = command("verify", tmp_path / "no.zip")
        assert outcome.code == 1
        assert "must be a zip archive" in outcome.err

    def test_an_empty_folder_is_nothing_to_verify(self, command, tmp_path):
        assert "no run in" in command("verify", tmp_path).err
