"""What a solution says of raw rows is verified: labels, columns, scaling, and what scores stand for."""

import dataclasses
import json

import numpy as np
import pytest
from app_samples import altered, resealed
from safetensors.numpy import load_file, save_file

from drobench import run
from drobench.app.encoding_claims import encoding_mismatches
from drobench.app.loading import load_dataset
from drobench.app.verification import Verifier
from drobench.registry import load_catalogue
from drobench.results.store import ResultStore


@pytest.fixture
def stored(tmp_path):
    """A run, and a function that verifies it after its arrays were changed, as a forger would."""
    results = tmp_path / "results"
    record = run("dataset=breast_cancer", "solver=scgd", "budget.passes=1", results=results)

    def verified(change=lambda arrays: None):
        file = results / record.run_id / "solution.safetensors"
        arrays = load_file(file)
        change(arrays)
        save_file(arrays, file)
        resealed(results, record.run_id)
        store = ResultStore(results)
        verdict = Verifier(store, load_catalogue(), results / ".optima").verify(store.read(record.run_id))
        assert verdict.unverified is None
        return [str(mismatch) for mismatch in verdict.mismatches]

    return results, record, verified


def with_encoder(**changes):
    def change(arrays):
        values = {**json.loads(arrays["encoder"].tobytes()), **changes}
        arrays["encoder"] = np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)

    return change


def shifted(name):
    def change(arrays):
        arrays[name] = arrays[name] + np.eye(30)[4]

    return change


def test_an_honest_solution_is_confirmed(stored):
    assert stored[2]() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_encoder(classes=[0, 1]), "encoder.classes: recorded (0, 1), found (1, 0)"),
        (with_encoder(target="health"), "encoder.target: recorded 'health', found 'diagnosis'"),
        (with_encoder(classes=[1]), "encoder: recorded"),
        (lambda arrays: arrays.update(encoder=np.zeros(3)), "text as bytes"),
        (shifted("feature_mean"), "feature_mean, number 4"),
        (shifted("feature_scale"), "feature_scale, number 4"),
        (lambda arrays: arrays.update(feature_mean=np.zeros(3)), "feature_mean: recorded (3,), found (30,)"),
        (lambda arrays: arrays.update(classes=np.array(3)), "classes: recorded 3, found 2"),
    ],
)
def test_another_reading_of_raw_rows_is_named(change, words, stored):
    found = stored[2](change)
    assert any(words in mismatch for mismatch in found), found


def test_a_solution_of_an_older_version_has_no_encoder(stored):
    assert stored[2](lambda arrays: arrays.pop("encoder")) == []


@pytest.mark.parametrize(("name", "value"), [("link", "softmax"), ("data_notes", ["clean"])])
def test_what_the_record_says_of_answers_and_data_is_verified(name, value, stored):
    results, record, verified = stored
    altered(results, record.run_id, lambda content: content.update({name: value}))
    assert any(mismatch.startswith(f"{name}: recorded") for mismatch in verified())


def test_an_encoder_where_the_dataset_has_none_is_named(stored, configure, catalogue):
    _, record, _ = stored
    dataset = load_dataset(configure("dataset=breast_cancer", base=()), catalogue)
    arrays = {
        "feature_mean": dataset.feature_mean.numpy(),
        "feature_scale": dataset.feature_scale.numpy(),
        "classes": np.array(2),
        "encoder": np.frombuffer(dataset.encoder.to_json().encode(), dtype=np.uint8),
    }

    class Plain:
        link = "logistic"

    bare = dataclasses.replace(dataset, encoder=None)
    assert list(encoding_mismatches(record, arrays, dataset, Plain())) == []
    (mismatch,) = encoding_mismatches(record, arrays, bare, Plain())
    assert "the dataset has none" in str(mismatch)
