"""A solution read back: raw rows in, labels of the source out, for models and losses of every kind."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from drobench import load_solution, run
from drobench.app.solution import read_encoder, written_encoder
from drobench.data.dataset import DataError
from drobench.data.encoder import number_encoder
from drobench.errors import DrobenchError
from drobench.results.store import ResultStore

ROWS = 240


def customers(seed: int = 0) -> pl.DataFrame:
    generator = np.random.default_rng(seed)
    income = generator.normal(50.0, 15.0, ROWS)
    job = generator.choice(["cook", "nurse", "pilot"], ROWS)
    margin = 0.1 * (income - 50.0) + 2.0 * (job == "pilot") + 0.5 * generator.normal(size=ROWS)
    texts = [f"{value:.3f}" if generator.random() > 0.1 else "?" for value in income]
    return pl.DataFrame({"income": texts, "job": job, "paid": np.where(margin > 0.7, "yes", "no"), "spent": margin})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "customers.csv"
    customers().write_csv(path)
    return path


@pytest.fixture(scope="module")
def trained(table, tmp_path_factory):
    """A run on raw text with gaps, its results and its solution."""
    results = tmp_path_factory.mktemp("results")
    words = (
        f"dataset.path={table}",
        "dataset.label=paid",
        "dataset.drop=[spent]",
        "dataset.missing=indicator",
        "dataset.split=[1,0,0]",
    )
    record = run("dataset=tabular", *words, "solver=newton", "budget.passes=10", results=results)
    return record, results, load_solution(record.run_id, results=results)


def test_raw_rows_get_the_labels_of_the_source(trained):
    record, _, solution = trained
    frame = customers()
    found = solution.predict(frame)
    assert set(found) == {"no", "yes"}
    assert np.mean(found != frame["paid"].to_numpy()) == pytest.approx(record.iterates.last.train_error)
    assert record.iterates.last.train_error < 0.2


def test_frames_of_every_kind_and_the_encoded_matrix_agree(trained):
    _, _, solution = trained
    frame = customers(1)
    expected = solution.scores(frame)
    for other in (frame.to_dict(as_series=False), pd.DataFrame(frame.to_dict(as_series=False))):
        np.testing.assert_array_equal(solution.scores(other), expected)
    np.testing.assert_array_equal(solution.scores(frame.select("job", "income")), expected)
    np.testing.assert_array_equal(solution.scores(solution.features(frame)), expected)
    np.testing.assert_array_equal(solution.decision_function(frame), expected)


def test_features_and_classes_have_names(trained):
    _, _, solution = trained
    assert solution.feature_names == ("income", "income_missing", "job_cook", "job_nurse", "job_pilot")
    assert solution.classes_.tolist() == ["no", "yes"]


def test_probabilities_are_those_of_the_logistic_loss(trained):
    _, _, solution = trained
    frame = customers(2)
    found = solution.predict_proba(frame)
    np.testing.assert_allclose(found[:, 1], 1.0 / (1.0 + np.exp(-solution.scores(frame))), rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(solution.classes_[found.argmax(axis=1)], solution.predict(frame))


def test_a_category_that_was_never_seen_has_no_indicator(trained):
    _, _, solution = trained
    features = solution.features({"income": ["50"], "job": ["judge"]})
    assert features.tolist() == [[50.0, 0.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"income": ["1"]}, "none called 'job'"),
        ({"income": ["much"], "job": ["cook"]}, "'income': numbers are needed, as in training; found 'much' in row 0"),
        ([["1", "cook"]], "Expected a matrix with 5 columns of numbers, income, income_missing"),
        ([[1.0, 2.0]], r"found shape \(1, 2\)"),
        ([[np.nan, 0.0, 1.0, 0.0, 0.0]], r"found nan in row 0, column 0 \('income'\)"),
    ],
)
def test_rows_that_cannot_be_are_refused(rows, words, trained):
    with pytest.raises(DrobenchError, match=words):
        trained[2].predict(rows)


def test_an_unseen_category_is_refused_where_training_said_so(table, tmp_path):
    words = ("dataset=tabular", f"dataset.path={table}", "dataset.label=paid", "dataset.drop=[income,spent]")
    record = run(*words, "dataset.unseen=refuse", "budget=smoke", results=tmp_path)
    solution = load_solution(record.run_id, results=tmp_path)
    with pytest.raises(DataError, match="found 'judge' in row 1"):
        solution.predict({"job": ["cook", "judge"]})


def test_the_labels_of_scikit_learn_are_given_back(tmp_path):
    from sklearn.datasets import load_breast_cancer

    record = run("solver=newton", "dataset=breast_cancer", "budget.passes=8", results=tmp_path)
    solution = load_solution(record.run_id, results=tmp_path)
    source = load_breast_cancer(as_frame=True)
    found = solution.predict(source.data)
    assert np.mean(found == source.target) > 0.95
    np.testing.assert_array_equal(found, solution.predict(source.data.to_numpy()))
    benign = solution.predict_proba(source.data)[:, solution.classes_.tolist().index(1)]
    assert np.mean(benign[source.target == 1]) > 0.8
    assert np.mean(benign[source.target == 0]) < 0.2


def test_numbers_are_predicted_in_the_units_of_the_source(tmp_path):
    from sklearn.datasets import load_diabetes

    record = run("problem=kl_regression", "dataset=diabetes", "solver=newton", "budget.passes=10", results=tmp_path)
    solution = load_solution(record.run_id, results=tmp_path)
    source = load_diabetes(scaled=False)
    found = solution.predict(source.data)
    np.testing.assert_allclose(found, 100.0 * solution.scores(source.data))
    assert np.corrcoef(found, source.target)[0, 1] > 0.6
    assert abs(found.mean() - source.target.mean()) < 50.0
    assert solution.classes_.size == 0
    with pytest.raises(DrobenchError, match="problem 'kl_regression' with the loss 'squared'"):
        solution.predict_proba(source.data)


def test_the_target_of_a_table_is_predicted_in_its_own_units(table, tmp_path):
    words = ("dataset=tabular", f"dataset.path={table}", "dataset.label=spent", "dataset.drop=[paid]")
    further = ("dataset.task=regression", "dataset.missing=impute", "dataset.target_scale=10")
    record = run(*words, *further, "problem=kl_regression", "solver=newton", "budget.passes=10", results=tmp_path)
    found = load_solution(record.run_id, results=tmp_path).predict(customers())
    assert np.sqrt(np.mean((found - customers()["spent"].to_numpy()) ** 2)) < 1.0


@pytest.mark.parametrize("model", [("model=linear",), ("model=mlp", "model.hidden=[8]"), ("model=cnn",)])
def test_more_than_two_classes_and_networks_have_probabilities(model, tmp_path):
    from sklearn.datasets import load_digits

    record = run("dataset=digits", *model, "budget.passes=2", results=tmp_path)
    solution = load_solution(record.run_id, results=tmp_path)
    source = load_digits()
    found, scores = solution.predict_proba(source.data[:40]), solution.scores(source.data[:40])
    expected = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_array_equal(solution.classes_[found.argmax(axis=1)], solution.predict(source.data[:40]))


@pytest.mark.parametrize(
    ("words", "link"),
    [
        (("problem=kl_classification", "problem.loss=hinge", "solver=unconstrained"), None),
        (("problem=kl_classification", "problem.balance_classes=true"), "logistic"),
        (("problem=wasserstein_logistic", "solver=sevr"), "logistic"),
    ],
)
def test_the_loss_says_whether_scores_are_probabilities(words, link, tmp_path):
    record = run(*words, "dataset=breast_cancer", "budget=smoke", results=tmp_path)
    solution = load_solution(record.run_id, results=tmp_path)
    rows = np.zeros((2, 30))
    assert solution.link == link
    if link is None:
        with pytest.raises(DrobenchError, match=r"with the loss 'hinge'.*`problem\.loss=logistic`"):
            solution.predict_proba(rows)
    else:
        assert solution.predict_proba(rows).shape == (2, 2)


def test_rules_of_fairness_predict_too(table, tmp_path):
    words = ("dataset=tabular", f"dataset.path={table}", "dataset.label=paid", "dataset.drop=[income]")
    groups = ("dataset.group=job", "problem=noisy_group_fairness", "problem.resamples=3", "budget=smoke")
    seen = run(*words, *groups, "problem.proxy_features=false", results=tmp_path)
    assert set(load_solution(seen.run_id, results=tmp_path).predict(customers())) <= {"no", "yes"}
    proxied = run(*words, *groups, results=tmp_path)
    with pytest.raises(DrobenchError, match="more columns than the data have"):
        load_solution(proxied.run_id, results=tmp_path).predict(customers())


def test_a_record_without_an_encoder_still_reads(trained, tmp_path):
    record, results, solution = trained
    store = ResultStore(results)
    arrays = {name: array for name, array in store.solution(record.run_id).items() if name != "encoder"}
    other = ResultStore(tmp_path)
    other.write(record, store.curve(record.run_id), arrays, store.config(record.run_id))
    older = load_solution(record.run_id, results=tmp_path)
    assert older.feature_names == ("x1", "x2", "x3", "x4", "x5")
    matrix = solution.features(customers())
    np.testing.assert_array_equal(older.predict(matrix), (solution.predict(matrix) == "yes").astype(int))


def test_what_is_known_of_the_data_is_recorded_and_shown(table, tmp_path, capsys):
    from drobench.app.cli import main

    words = ("dataset=tabular", f"dataset.path={table}", "dataset.label=paid", "dataset.drop=[income,spent]")
    record = run(*words, "dataset.group=job", "dataset.group_features=true", "budget=smoke", results=tmp_path)
    (note,) = record.others["data_notes"]
    assert note.startswith("Groups by 'job': 0 cook (")
    with pytest.raises(SystemExit):
        main(["show", record.run_id, "--results", str(tmp_path)])
    assert "Groups by 'job': 0 cook" in capsys.readouterr().out


ARRAYS = {"feature_mean": np.zeros(2), "classes": np.array(2)}


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (np.zeros(3), "text as bytes; found float64"),
        (np.zeros((2, 2), dtype=np.uint8), r"of shape \(2, 2\)"),
        (np.array([255], dtype=np.uint8), "UTF-8"),
        (np.frombuffer(b"{}", dtype=np.uint8), "columns"),
        (written_encoder(number_encoder(["a"], classes=(0, 1))), "2 features and 2 classes; found 1 and 2"),
        (written_encoder(number_encoder(["a", "b"])), "found 2 and 0"),
    ],
)
def test_a_strangers_encoder_is_looked_at_before_it_is_used(stored, words):
    with pytest.raises(DrobenchError, match=words):
        read_encoder({**ARRAYS, "encoder": stored})


def test_an_encoder_survives_in_a_solution():
    encoder = number_encoder(["größe", "b"], classes=("né", "ok"))
    assert read_encoder({**ARRAYS, "encoder": written_encoder(encoder)}) == encoder
    assert json.loads(written_encoder(encoder).tobytes())["classes"] == ["né", "ok"]
    assert read_encoder(ARRAYS) is None
