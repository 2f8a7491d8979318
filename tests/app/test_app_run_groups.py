"""Tables by group of stored runs: recomputed, held against the record, and refused where they would be untrue."""

import dataclasses

import numpy as np
import pytest
import torch
from fairlearn.metrics import MetricFrame
from sklearn.metrics import zero_one_loss

from drobench import load_solution, run
from drobench.app.run_groups import ALL, NoGroupTable, RunGroups
from drobench.results.store import ResultStore

SMALL = ("solver=newton", "budget.passes=3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("groups") / "results"


@pytest.fixture(scope="module")
def classified(folder):
    return run(*SMALL, "problem=kl_classification", "dataset=adult_twin", "dataset.rows=600", results=folder)


@pytest.fixture
def groups(folder, catalogue):
    return RunGroups(ResultStore(folder), catalogue)


def test_the_table_is_that_of_fairlearn_for_the_stored_model(groups, classified, folder, catalogue):
    found = {(part.grouping, part.split): part for part in groups.of(classified)}
    assert list(dict.fromkeys(name for name, _ in found)) == ["group", "class"]
    entry = catalogue.dataset("adult_twin").entry
    data = entry.factory(entry.config(rows=600))
    # `predict` takes raw features, the dataset has scaled ones.
    raw = data.test.features.numpy() * data.feature_scale.numpy() + data.feature_mean.numpy()
    solution = load_solution(classified.run_id, results=folder)
    expected = MetricFrame(
        metrics=zero_one_loss,
        y_true=np.array(solution.classes_)[data.test.labels.numpy()],
        y_pred=solution.predict(raw),
        sensitive_features=data.test.groups.numpy(),
    ).by_group
    errors = {row.group: row.error for _, row in found["group", "test"].rows}
    assert errors == pytest.approx(dict(expected))


def test_the_whole_is_what_the_record_says(groups, classified):
    last = classified.iterates.last
    for part in groups.of(classified):
        assert part.whole.error == pytest.approx(getattr(last, f"{part.split}_error"))
        assert part.whole.mean_loss == pytest.approx(last.extra[f"{part.split}_average_risk"])
        worst = "group" if part.grouping == "group" else "class"
        recorded = last.extra[f"{part.split}_worst_{worst}_error"]
        assert max(row.error for _, row in part.rows) == pytest.approx(recorded)
        assert sum(row.count for _, row in part.rows) == part.whole.count


def test_another_iterate_has_another_table(groups, classified):
    best = classified.iterates.best_feasible
    for part in groups.of(classified, "best_feasible"):
        assert part.whole.error == pytest.approx(getattr(best, f"{part.split}_error"))


def test_regression_has_residuals_and_without_groups_one_row(groups, folder):
    record = run(*SMALL, "problem=chi2_regression", "problem.gamma=2", "dataset=diabetes", results=folder)
    parts = groups.of(record)
    assert [(part.grouping, part.split) for part in parts] == [
        (ALL, "train"),
        (ALL, "validation"),
        (ALL, "test"),
    ]
    for part in parts:
        assert part.whole.rmse == pytest.approx(record.iterates.last.extra[f"{part.split}_rmse"])
        assert part.whole.mae == pytest.approx(record.iterates.last.extra[f"{part.split}_mae"])
        assert part.whole.error is None


def test_attributes_cut_the_rows_of_the_intersectional_problem(groups, folder):
    words = ("problem=intersectional_fairness", "dataset=communities_twin", "budget.passes=1", "solver=unconstrained")
    found = groups.of(run(*words, results=folder))
    assert {part.grouping for part in found} == {"class", "attribute 0", "attribute 1", "attribute 2"}
    labels = [label for label, _ in next(part for part in found if part.grouping == "attribute 1").rows]
    assert [label.split()[0] for label in labels] == ["at", "above"]


def test_what_would_be_about_something_else_is_refused(groups, classified):
    other = dataclasses.replace(classified.dataset, sha256="0" * 64)
    with pytest.raises(NoGroupTable, match="a table by group would be about others"):
        groups.of(dataclasses.replace(classified, dataset=other))
    with pytest.raises(NoGroupTable, match="has no iterate 'average'"):
        groups.of(classified, "average")


def test_a_problem_that_scores_no_rows_is_named(groups, folder):
    words = ("problem=constrained_quadratic", "problem.constraints=5", "dataset=synthetic", "dataset.rows=60")
    record = run(*words, "solver=fulltouch", "budget=smoke", results=folder)
    with pytest.raises(NoGroupTable, match=r"'constrained_quadratic' does not say .* `Problem\.row_scores`"):
        groups.of(record)


def test_rows_that_stay_in_a_file_are_scored_piece_by_piece(catalogue, monkeypatch):
    from drobench.data.dataset import Split
    from drobench.objective.predictor import ModelConfig

    data = catalogue.dataset("adult_twin").entry
    problem_entry = catalogue.problem("kl_classification").entry
    loaded = data.factory(data.config(rows=300))
    problem = problem_entry.factory(problem_entry.config(), loaded, ModelConfig())
    point = torch.linspace(-1, 1, problem.form.dimension, dtype=torch.float64)
    whole = problem.row_scores(point, "test")
    monkeypatch.setattr(Split, "at_once", 7)
    pieces = problem.row_scores(point, "test")
    np.testing.assert_allclose(pieces.scores, whole.scores, rtol=1e-12)
    np.testing.assert_array_equal(pieces.groups, whole.groups)
    np.testing.assert_allclose(pieces.loss, whole.loss, rtol=1e-12)
