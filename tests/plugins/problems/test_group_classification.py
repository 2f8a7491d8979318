"""Group-robust classification as a plugin: its groups, its scores, its certified optima, its special cases."""

import math
from dataclasses import replace

import cvxpy
import numpy as np
import pytest
import torch

from drobench.app.optimum import find_optimum
from drobench.data.build import build_dataset
from drobench.errors import SettingError
from drobench.objective.forms import FiniteSum
from drobench.objective.predictor import ModelConfig
from drobench.objective.regularizers import ElasticNet
from drobench.registry import load_catalogue
from drobench_plugins.datasets.digits import DigitsConfig, load_digits_dataset
from drobench_plugins.datasets.synthetic import SyntheticConfig
from drobench_plugins.problems.divergence_classification import DivergenceClassification, KLClassificationConfig
from drobench_plugins.problems.group_classification import GroupClassification, GroupClassificationConfig
from drobench_plugins.solvers import exact_convex

# An interior-point method may doubt its own answer; the comparisons are what counts.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue()


@pytest.fixture(scope="module")
def grouped(catalogue):
    """A dataset whose rows belong to three groups of different size and difficulty."""
    generator = np.random.default_rng(3)
    groups = generator.choice(3, 150, p=[0.6, 0.3, 0.1])
    features = generator.normal(size=(150, 4))
    slopes = np.array([[1.0, 0.0, 0.5, 0.0], [0.0, 1.0, 0.5, 0.0], [-1.0, 0.5, 0.0, 1.0]])[groups]
    labels = (2.0 * (features * slopes).sum(axis=1) + generator.normal(size=150) > 0).astype(int)
    config = SyntheticConfig(rows=150, split=[0.6, 0.2, 0.2])
    return build_dataset(
        "grouped", features, labels, config, provides=frozenset({"groups"}), columns={"groups": groups}
    )


def pose(dataset, **settings):
    return GroupClassification(GroupClassificationConfig(**{"l2": 0.05, **settings}), dataset, ModelConfig())


def certified(problem, catalogue, tmp_path):
    reference = find_optimum(problem, {"case": str(vars(problem.config))}, catalogue, tmp_path)
    assert reference.optimum is not None, reference.reason
    return reference.optimum.value


def conic_optimum(problem):
    """The smallest worst group mean, or its KL price, with the losses of every group written as a cone."""
    signed, groups = problem.form.losses.signed_rows.numpy(), problem.groups["train"].numpy()
    point = cvxpy.Variable(signed.shape[1])
    losses = cvxpy.logistic(-signed @ point)
    means = [
        cvxpy.sum(losses[np.flatnonzero(groups == group)]) / (groups == group).sum() for group in np.unique(groups)
    ]
    risk = cvxpy.max(cvxpy.hstack(means))
    if problem.config.variant == "penalty":
        gamma = problem.config.gamma
        risk = gamma * (cvxpy.log_sum_exp(cvxpy.hstack(means) / gamma) - math.log(len(means)))
    return cvxpy.Problem(cvxpy.Minimize(risk + 0.025 * cvxpy.sum_squares(point))).solve(solver="CLARABEL")


@pytest.mark.parametrize("groups", ["attribute", "label", "attribute_and_label", "client"])
@pytest.mark.parametrize("variant", ["worst", "penalty"])
def test_the_certified_optimum_is_that_of_a_conic_solver(groups, variant, grouped, catalogue, tmp_path):
    problem = pose(grouped, groups=groups, variant=variant, clients=4)
    assert certified(problem, catalogue, tmp_path) == pytest.approx(conic_optimum(problem), abs=1e-6)


def test_many_rows_are_certified_by_the_method_of_multipliers(grouped, catalogue, tmp_path, monkeypatch):
    monkeypatch.setattr(exact_convex, "MOST_CONIC_SAMPLES", 0)
    for l1 in (0.0, 0.02):
        problem = pose(grouped, groups="attribute", l1=l1)
        value = certified(problem, catalogue, tmp_path / str(l1))
        if l1 == 0.0:
            assert value == pytest.approx(conic_optimum(problem), abs=1e-6)


def test_more_than_two_classes_are_certified_too(catalogue, tmp_path, monkeypatch):
    monkeypatch.setattr(exact_convex, "MOST_CONIC_SAMPLES", 0)
    data = load_digits_dataset(DigitsConfig(split=[0.1, 0.1, 0.1]))
    problem = pose(data)
    assert problem.form.ambiguity.count == 10
    assert certified(problem, catalogue, tmp_path) > 0.0


def test_groups_are_attributes_classes_or_blocks(grouped):
    train = grouped.train
    assert torch.equal(pose(grouped, groups="attribute").form.ambiguity.groups, train.groups)
    assert torch.equal(pose(grouped, groups="label").form.ambiguity.groups, train.labels)
    blocks = pose(grouped, groups="client", clients=7).form.ambiguity.groups
    assert torch.equal(blocks, blocks.sort().values)
    sizes = torch.bincount(blocks)
    assert (sizes.numel(), int(sizes.sum())) == (7, train.rows)
    assert int(sizes.max() - sizes.min()) <= 1


def test_classes_within_attributes_are_groups_where_they_occur(grouped):
    train = grouped.train
    pairs = sorted(set(zip(train.groups.tolist(), train.labels.tolist(), strict=True)))
    found = pose(grouped, groups="attribute_and_label").form.ambiguity.groups
    assert found.tolist() == [
        pairs.index(pair) for pair in zip(train.groups.tolist(), train.labels.tolist(), strict=True)
    ]
    # Without the positive rows of the first group there is one group less.
    kept = torch.nonzero((train.groups != 0) | (train.labels != 1))[:, 0]
    fewer = replace(train, features=train.features[kept], labels=train.labels[kept], groups=train.groups[kept])
    problem = pose(replace(grouped, train=fewer), groups="attribute_and_label")
    assert problem.form.ambiguity.count == len(pairs) - 1


def test_scores_name_the_errors_of_groups_where_these_are_known(grouped):
    point = torch.randn(5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    problem = pose(grouped, groups="attribute")
    for name, split in (("train", grouped.train), ("validation", grouped.validation), ("test", grouped.test)):
        scores = problem.predictor.scores(point, split.features)
        wrong = ((scores > 0).long() != split.labels).double()
        rates = [float(wrong[split.groups == group].mean()) for group in split.groups.unique()]
        margins = (2 * split.labels - 1) * scores
        risks = [float(torch.log1p((-margins[split.groups == g]).exp()).mean()) for g in split.groups.unique()]
        extra = problem.score(point, name).extra
        assert extra["worst_group_error"] == pytest.approx(max(rates))
        assert extra["mean_group_error"] == pytest.approx(sum(rates) / len(rates))
        assert extra["worst_case_risk"] == pytest.approx(max(risks))
    blocks = pose(grouped, groups="client")
    assert "worst_group_error" in blocks.score(point, "train").extra
    assert "worst_group_error" not in blocks.score(point, "validation").extra


def test_one_client_is_empirical_risk(grouped):
    problem = pose(grouped, groups="client", clients=1)
    plain = FiniteSum(problem.form.losses, ElasticNet(l2=0.05))
    point = torch.linspace(-1.0, 1.0, 5, dtype=torch.float64)
    assert float(problem.form.value(point)) == pytest.approx(float(plain.value(point)), rel=1e-13)
    torch.testing.assert_close(problem.form.smooth_gradient(point), plain.smooth_gradient(point))


def test_a_client_for_every_row_is_kl_classification(grouped):
    problem = pose(grouped, groups="client", clients=grouped.train.rows, variant="penalty", gamma=0.3)
    same = DivergenceClassification(KLClassificationConfig(l2=0.05, gamma=0.3), grouped, ModelConfig())
    point = torch.linspace(-1.0, 1.0, 5, dtype=torch.float64)
    assert float(problem.form.value(point)) == pytest.approx(float(same.form.value(point)), rel=1e-12)
    torch.testing.assert_close(problem.form.smooth_gradient(point), same.form.smooth_gradient(point))


def test_a_high_price_is_the_mean_of_the_group_means(grouped):
    problem = pose(grouped, groups="attribute", variant="penalty", gamma=1e9, l2=0.0)
    point = torch.linspace(-1.0, 1.0, 5, dtype=torch.float64)
    losses = problem.form.losses.values(point)
    expected = sum(float(losses[grouped.train.groups == group].mean()) for group in range(3)) / 3
    assert float(problem.form.value(point)) == pytest.approx(expected, rel=1e-8)


def test_a_dataset_without_groups_is_refused_by_name(catalogue):
    data = catalogue.dataset("synthetic").entry.factory(SyntheticConfig(rows=50))
    with pytest.raises(SettingError, match=r"problem\.groups=attribute .*'synthetic' provides binary_labels, labels"):
        pose(data, groups="attribute")


def test_a_group_without_training_rows_is_refused_by_name(grouped):
    train = replace(grouped.train, groups=grouped.train.groups + (grouped.train.groups > 0))
    with pytest.raises(SettingError, match=r"found none of group 1 in dataset 'grouped'"):
        pose(replace(grouped, train=train), groups="attribute")
    with pytest.raises(SettingError, match="found none of class 2"):
        pose(replace(grouped, classes=3), groups="label")


def test_more_clients_than_rows_are_refused(grouped):
    with pytest.raises(SettingError, match=r"problem\.clients must be at most the number of training rows, 90"):
        pose(grouped, groups="client", clients=91)


@pytest.mark.parametrize(
    "settings", [{"variant": "best"}, {"groups": "race"}, {"clients": 0}, {"gamma": 0.0}, {"loss": "squared"}]
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        GroupClassificationConfig(**settings)
