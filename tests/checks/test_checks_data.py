"""Data at hand for whatever needs some: installed, or made to measure."""

from dataclasses import dataclass
from itertools import combinations

import problem_subjects as subjects
import pytest
import torch

from drobench.checks import ProblemChecks
from drobench.checks.embedded_data import fitting_dataset
from drobench.checks.made_data import made_dataset
from drobench.checks.running import run_checks
from drobench.objective.forms import RobustRisk
from drobench.registry import load_catalogue

WORDS = ("images", "groups", "attributes", "queries", "relevance")


@pytest.mark.parametrize("target", ["labels", "binary_labels", "targets"])
@pytest.mark.parametrize("words", [words for size in (0, 1, 2, 5) for words in combinations(WORDS, size)], ids="-".join)
def test_what_is_made_provides_what_is_needed(target, words):
    needs = frozenset({target, *words})
    dataset = made_dataset(needs)
    assert needs <= dataset.provides
    assert (len(dataset.input_shape) == 3) == ("images" in words)
    for split in (dataset.train, dataset.validation, dataset.test):
        for word in needs - {"labels", "binary_labels", "images"}:
            assert len(getattr(split, word)) == split.rows
    assert made_dataset(needs).sha256 == dataset.sha256


@pytest.mark.parametrize("needs", [{"moonlight"}, {"targets", "labels"}])
def test_what_nobody_can_make_is_not_made(needs):
    assert made_dataset(frozenset(needs)) is None


def test_generated_data_are_not_larger_than_checks_look_at():
    found = fitting_dataset(frozenset({"queries"}), load_catalogue())
    assert found.rows < 20_000


@dataclass
class Settings:
    """None."""


class OfImages(subjects.Risk):
    """Robust risk with an own layer over images, which a row of numbers would break."""

    def __init__(self, config, dataset, model) -> None:
        channels, height, width = dataset.input_shape
        super().__init__(config, dataset, model)
        self.size = channels * height * width
        self.form = RobustRisk(self.form.losses, self.form.ambiguity, self.form.regularizer)


class OfGroups(subjects.Risk):
    """Looks at the groups of every split."""

    def __init__(self, config, dataset, model) -> None:
        super().__init__(config, dataset, model)
        assert dataset.train.groups is not None
        assert dataset.train.attributes is not None


@pytest.mark.parametrize(
    ("factory", "needs"),
    [(OfImages, {"binary_labels", "images"}), (OfGroups, {"binary_labels", "groups", "attributes"})],
    ids=["images", "groups"],
)
def test_a_problem_is_tried_on_what_it_needs(factory, needs):
    made = subjects.entry(factory, needs=frozenset(needs))
    results = run_checks({"TestIt": type("TestIt", (ProblemChecks,), {"entry": made})}, "not installed_dataset")
    assert {result.outcome for result in results} <= {"passed", "skipped"}, results
    assert sum(result.outcome == "passed" for result in results) >= 8


def test_a_problem_of_numbers_is_tried_on_numbers():
    seen = []

    def remembering(config, dataset, model):
        """A problem."""
        seen.append(dataset.train.targets)
        return load_catalogue().problem("kl_regression").entry.factory(config, dataset, model)

    config = load_catalogue().problem("kl_regression").entry.config
    made = subjects.entry(remembering, config=config, needs=frozenset({"targets", "groups"}))
    results = run_checks({"TestIt": type("TestIt", (ProblemChecks,), {"entry": made})}, "slopes or differences")
    assert [result.outcome for result in results] == ["passed"]
    assert all(isinstance(targets, torch.Tensor) for targets in seen)
