"""What our problems say of their metrics covers all they measure; groups that the data know are looked at."""

import pytest
import torch
from fairlearn.metrics import MetricFrame
from sklearn.metrics import zero_one_loss

from drobench.objective.predictor import ModelConfig
from drobench.problem.group_table import group_table
from drobench.registry import load_catalogue

CATALOGUE = load_catalogue()
SETTINGS = {
    "adult_twin": {"rows": 400},
    "communities_twin": {},
    "mslr_twin": {"queries": [12, 4, 4]},
    "diabetes": {},
    "digits": {},
}
PAIRS = [
    *((name, "adult_twin") for name in ("kl_classification", "wasserstein_logistic", "noisy_group_fairness")),
    ("group_classification", "adult_twin"),
    ("cvar_classification", "digits"),
    ("intersectional_fairness", "communities_twin"),
    ("ranking_fairness", "mslr_twin"),
    ("chi2_regression", "diabetes"),
]


def posed(problem, dataset):
    data = CATALOGUE.dataset(dataset).entry
    entry = CATALOGUE.problem(problem).entry
    loaded = data.factory(data.config(**SETTINGS[dataset]))
    return entry.factory(entry.config(), loaded, ModelConfig()), loaded


@pytest.mark.parametrize(("name", "data"), PAIRS)
def test_all_that_is_measured_is_described_once(name, data):
    problem, _ = posed(name, data)
    point = problem.start(torch.Generator().manual_seed(0))
    described = [metric.name for metric in problem.metrics]
    measured = {name for split in ("train", "test") for name in problem.score(point, split).extra}
    assert measured <= set(described)
    assert len(set(described)) == len(described)


@pytest.mark.parametrize("name", ["kl_classification", "noisy_group_fairness"])
def test_the_worst_group_is_that_of_fairlearn(name):
    problem, data = posed(name, "adult_twin")
    point = problem.start(torch.Generator().manual_seed(1))
    point += torch.randn(point.shape, generator=torch.Generator().manual_seed(2), dtype=point.dtype)
    rows = problem.row_scores(point, "test")
    frame = MetricFrame(
        metrics=zero_one_loss,
        y_true=data.test.labels.numpy(),
        y_pred=(rows.scores > 0).long().numpy(),
        sensitive_features=data.test.groups.numpy(),
    )
    assert problem.score(point, "test").extra["worst_group_error"] == pytest.approx(frame.by_group.max())
    errors = {row.group: row.error for row in group_table(rows.groups, rows.truth, rows.scores, rows.loss)}
    assert errors == pytest.approx(dict(frame.by_group))
