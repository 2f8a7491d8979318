"""The Python interface: `run`, `runs`, `leaderboard`, `plot`, `load_solution`."""

import numpy as np
import pytest
from app_samples import SMALL

from drobench import leaderboard, load_solution, plot, run, runs
from drobench.app.results_folder import default_results
from drobench.errors import DrobenchError
from drobench.results.comparison.filters import Filter
from drobench.results.comparison.leaderboard import NothingToCompare
from drobench.results.record import Status
from drobench.results.store import ResultStore, UnknownRun


def raw_breast_cancer():
    from sklearn.datasets import load_breast_cancer

    source = load_breast_cancer()
    return source.data, source.target


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on real data, and its folder of results."""
    folder = tmp_path_factory.mktemp("trained")
    record = run("solver=scgd", "dataset=breast_cancer", "budget.passes=5", seed=2, results=folder)
    return folder, record


def rows_of_split(folder, record, split):
    """Find the raw rows of a split by their content: those that, scaled as in training, are its features."""
    from drobench.app.config import from_yaml
    from drobench.app.loading import load_dataset
    from drobench.registry import load_catalogue

    config = from_yaml(ResultStore(folder).config(record.run_id), load_catalogue())
    dataset = load_dataset(config, load_catalogue())
    arrays = ResultStore(folder).solution(record.run_id)
    raw, _ = raw_breast_cancer()
    scaled = (raw - arrays["feature_mean"]) / arrays["feature_scale"]
    wanted = {row.tobytes() for row in getattr(dataset, split).features.numpy()}
    rows = np.array([position for position, row in enumerate(scaled) if row.tobytes() in wanted])
    assert len(rows) == getattr(dataset, split).rows
    return rows


@pytest.mark.parametrize("iterate", ["last", "average", "best_feasible"])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_loaded_solution_makes_the_recorded_errors(trained, iterate, split):
    folder, record = trained
    features, labels = raw_breast_cancer()
    rows = rows_of_split(folder, record, split)
    predicted = load_solution(record.run_id, iterate=iterate, results=folder).predict(features[rows])
    assert set(np.unique(predicted)) == {0, 1}
    assert predicted.dtype == np.int64
    recorded = getattr(getattr(record.iterates, iterate), f"{split}_error")
    assert float(np.mean(predicted != labels[rows])) == recorded


def test_the_splits_do_not_overlap_and_the_scaling_is_that_of_training(trained):
    folder, record = trained
    rows = {split: rows_of_split(folder, record, split) for split in ("train", "validation", "test")}
    assert sum(map(len, rows.values())) == len(set(np.concatenate(list(rows.values())))) == 569
    arrays = ResultStore(folder).solution(record.run_id)
    raw = raw_breast_cancer()[0][rows["train"]]
    np.testing.assert_allclose(arrays["feature_mean"], raw.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(arrays["feature_scale"], raw.std(axis=0), rtol=1e-12)


def test_a_loaded_network_makes_the_recorded_error(tmp_path):
    words = ("solver=gcivr", "dataset=breast_cancer", "model=mlp", "model.hidden=[4]", "budget.passes=2")
    record = run(*words, results=tmp_path / "r")
    features, labels = raw_breast_cancer()
    rows = rows_of_split(tmp_path / "r", record, "test")
    predicted = load_solution(record.run_id, results=tmp_path / "r").predict(features[rows])
    assert float(np.mean(predicted != labels[rows])) == record.iterates.last.test_error


def test_scores_are_real_numbers_whose_sign_is_the_prediction(trained):
    folder, record = trained
    solution = load_solution(record.run_id[:8], results=folder)
    features, _ = raw_breast_cancer()
    scores = solution.scores(features[:50])
    assert scores.shape == (50,)
    # scikit-learn calls the positive class, malignant, 0.
    np.testing.assert_array_equal(solution.predict(features[:50]), scores <= 0)
    point, mean, scale = solution.point, solution.feature_mean, solution.feature_scale
    np.testing.assert_allclose(scores, (features[:50] - mean) / scale @ point[:-1] + point[-1], rtol=1e-10)
    np.testing.assert_array_equal(solution.predict(features[:50].tolist()), solution.predict(features[:50]))


@pytest.mark.parametrize("shape", [(3, 29), (3, 31), (30,), (2, 3, 30)])
def test_features_of_another_shape_are_refused(trained, shape):
    folder, record = trained
    with pytest.raises(DrobenchError, match="30 columns") as refusal:
        load_solution(record.run_id, results=folder).predict(np.zeros(shape))
    assert str(shape) in str(refusal.value)


def test_a_missing_iterate_is_refused_naming_those_there_are(tmp_path):
    record = run("solver=gcivr", *SMALL, results=tmp_path / "r")
    with pytest.raises(DrobenchError, match="no iterate 'average'; it has: last, best_feasible"):
        load_solution(record.run_id, iterate="average", results=tmp_path / "r")
    with pytest.raises(DrobenchError, match="no iterate 'first'"):
        load_solution(record.run_id, iterate="first", results=tmp_path / "r")


def test_an_unknown_run_is_refused(trained):
    with pytest.raises(UnknownRun, match="ffffffff"):
        load_solution("ffffffff", results=trained[0])


def test_run_takes_overrides_settings_and_a_reporter(tmp_path):
    rows = []
    record = run("solver=unconstrained", *SMALL, seed=9, results=tmp_path / "r", on_evaluation=rows.append)
    assert record.seed == 9
    assert record.status is Status.BUDGET_SPENT
    assert len(rows) == 6
    assert ResultStore(tmp_path / "r").read(record.run_id) == run(
        "solver=unconstrained", *SMALL, seed=9, results=tmp_path / "r"
    )


def test_run_refuses_what_the_command_line_refuses(tmp_path):
    with pytest.raises(DrobenchError, match="Did you mean 'gcivr'"):
        run("solver=gcvir", results=tmp_path / "r")
    with pytest.raises(DrobenchError, match="Did you mean 'seed'"):
        run(sed=3, results=tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("name", ["with space", "a,b=c", "it's (final) [1] {x} #1 ~", "ünïcode"])
def test_a_results_folder_may_have_any_name(tmp_path, name):
    record = run(*SMALL, results=tmp_path / name)
    assert (tmp_path / name / record.run_id / "record.json").is_file()


def test_none_means_no_limit(tmp_path):
    record = run(*SMALL, timeout=None, results=tmp_path / "r")
    assert record.status is Status.BUDGET_SPENT


def test_results_go_where_the_environment_says(tmp_path, monkeypatch):
    assert str(default_results()) == "results"
    monkeypatch.setenv("DROBENCH_RESULTS", str(tmp_path / "elsewhere"))
    assert default_results() == tmp_path / "elsewhere"
    record = run(*SMALL)
    assert (tmp_path / "elsewhere" / record.run_id).is_dir()
    assert load_solution(record.run_id).record == record
    assert [row.name for board in leaderboard().boards for row in board.rows] == ["gcivr"]


def test_results_go_to_the_working_directory_by_default(tmp_path):
    record = run(*SMALL)
    assert (tmp_path / "results" / record.run_id / "record.json").is_file()


def test_the_leaderboard_compares_what_is_there(finished, tmp_path):
    folder, runs = finished
    (board,) = leaderboard(folder, target_gap=0.5).boards
    assert {row.name for row in board.rows} == set(runs)
    with pytest.raises(NothingToCompare):
        leaderboard(tmp_path / "empty")
    with pytest.raises(DrobenchError, match="iterate"):
        leaderboard(folder, iterate="first")


def test_the_leaderboard_prints_itself_and_is_a_frame(finished):
    folder, records = finished
    found = leaderboard(folder)
    assert "rank  solver" in str(found)
    assert set(found.to_frame()["solver"]) == set(records)
    assert found._repr_html_().count("<table>") == len(found.boards)


def test_runs_are_a_frame(finished):
    folder, records = finished
    frame = runs(folder)
    assert set(frame["run_id"]) == {record.run_id for record in records.values()}
    gaps = dict(zip(frame["solver"], frame["gap"], strict=True))
    assert gaps == {solver: record.iterates.last.gap for solver, record in records.items()}
    assert runs(folder, only=Filter(solver=["sc*"]))["solver"].to_list() == ["scgd"]


def test_a_run_that_cannot_be_read_is_left_out_of_the_frame_with_a_warning(finished):
    folder, records = finished
    (folder / records["scgd"].run_id / "record.json").write_text("{")
    with pytest.warns(UserWarning, match=records["scgd"].run_id):
        frame = runs(folder)
    assert sorted(frame["solver"]) == ["gcivr", "unconstrained"]


def test_plot_returns_the_figure_that_is_named(finished):
    folder, _ = finished
    assert "_by_" in plot(results=folder).name
    assert plot("*stationarity*", folder).name.endswith("_stationarity_by_oracle_calls")
    with pytest.raises(DrobenchError, match=r"no figure 'speed'.*relative_gap_by_oracle_calls"):
        plot("speed", folder)


def test_a_run_inside_a_thread_works_even_with_a_timeout(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        record = pool.submit(run, *SMALL, timeout=60, results=tmp_path / "r").result()
    assert record.status is Status.BUDGET_SPENT


def test_the_old_name_of_the_callback_works_and_warns(tmp_path):
    rows = []
    with pytest.warns(DeprecationWarning, match=r"run\(report=...\) is now drobench.run\(on_evaluation=...\)"):
        record = run("solver=unconstrained", *SMALL, results=tmp_path / "r", report=rows.append)
    assert rows[-1]["objective"] == record.iterates.last.objective
