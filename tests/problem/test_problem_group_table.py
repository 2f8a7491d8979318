"""The table by group, against fairlearn's MetricFrame, against scikit-learn, and at its edges."""

import dataclasses
import math

import numpy
import pytest
import torch
from fairlearn.metrics import MetricFrame, count, false_positive_rate, selection_rate, true_positive_rate
from sklearn.metrics import mean_absolute_error, mean_squared_error, zero_one_loss

from drobench.errors import SettingError
from drobench.problem.group_table import GroupRow, group_table

ROWS = 400


@pytest.fixture
def drawn():
    generator = torch.Generator().manual_seed(3)
    groups = torch.randint(-2, 5, (ROWS,), generator=generator)
    groups[groups == 3] = 40
    scores = torch.randn(ROWS, generator=generator, dtype=torch.float64)
    labels = (scores + torch.randn(ROWS, generator=generator) > 0).long()
    return groups, labels, scores, torch.rand(ROWS, generator=generator)


def test_classification_is_what_fairlearn_finds(drawn):
    groups, labels, scores, loss = drawn
    frame = MetricFrame(
        metrics={
            "count": count,
            "error": zero_one_loss,
            "selection_rate": selection_rate,
            "true_positive_rate": true_positive_rate,
            "false_positive_rate": false_positive_rate,
        },
        y_true=labels.numpy(),
        y_pred=(scores > 0).long().numpy(),
        sensitive_features=groups.numpy(),
    ).by_group
    rows = group_table(groups, labels, scores, loss)
    assert [row.group for row in rows] == list(frame.index)
    for row in rows:
        for name in frame.columns:
            assert getattr(row, name) == pytest.approx(frame.loc[row.group, name], abs=1e-14), name
        assert row.share == row.count / ROWS
        assert row.mean_loss == pytest.approx(float(loss[groups == row.group].double().mean()), abs=1e-7)
        assert row.rmse is row.mae is row.mean_residual is None


def test_regression_is_what_scikit_learn_finds(drawn):
    groups, _, targets, noise = drawn
    predicted = targets.float() + noise
    frame = MetricFrame(
        metrics={"rmse": lambda *pair: mean_squared_error(*pair) ** 0.5, "mae": mean_absolute_error},
        y_true=targets.numpy(),
        y_pred=predicted.double().numpy(),
        sensitive_features=groups.numpy(),
    ).by_group
    for row in group_table(groups, targets, predicted, task="regression"):
        assert row.rmse == pytest.approx(frame.loc[row.group, "rmse"], rel=1e-12)
        assert row.mae == pytest.approx(frame.loc[row.group, "mae"], rel=1e-12)
        residuals = (predicted.double() - targets)[groups == row.group]
        assert row.mean_residual == pytest.approx(float(residuals.mean()), rel=1e-12)
        assert row.error is row.selection_rate is row.mean_loss is None


def test_scores_of_classes_have_errors_and_no_rates():
    scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    rows = group_table(torch.tensor([0, 0, 1]), torch.tensor([1, 0, 2]), scores)
    assert [row.error for row in rows] == [0.25, 1.0]
    assert all(row.selection_rate is None and row.true_positive_rate is None for row in rows)


def test_ties_count_half_and_no_number_is_wrong():
    scores = torch.tensor([0.0, 0.0, math.nan, math.nan])
    (row,) = group_table(torch.zeros(4, dtype=torch.int64), torch.tensor([1, 0, 1, 0]), scores)
    # Half of either tie is selected; of the others the row of class 0 is, the row of class 1 is not.
    assert (row.error, row.selection_rate) == (0.75, 0.5)
    assert (row.true_positive_rate, row.false_positive_rate) == (0.25, 0.75)


def test_rates_of_nobody_do_not_exist():
    rows = group_table(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([1.0, 1.0]))
    assert (rows[0].true_positive_rate, rows[0].false_positive_rate) == (1.0, None)
    assert (rows[1].true_positive_rate, rows[1].false_positive_rate) == (None, 1.0)


def test_no_rows_make_no_groups():
    nothing = torch.empty(0)
    assert group_table(nothing.long(), nothing.long(), nothing) == []


def test_many_groups_are_counted_exactly():
    groups = torch.arange(10_000).repeat(3)
    values = torch.arange(30_000, dtype=torch.float64)
    rows = group_table(groups, torch.zeros(30_000), values, task="regression")
    assert len(rows) == 10_000
    assert [row.mean_residual for row in rows] == (numpy.arange(10_000) + 10_000.0).tolist()


def test_every_column_is_explained():
    for field in dataclasses.fields(GroupRow):
        assert f"{field.name}:" in GroupRow.__doc__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "ranking"}, "classification, regression; found 'ranking'"),
        ({"groups": torch.zeros(3)}, "whole number per row"),
        ({"labels_or_targets": torch.zeros(2)}, "`labels_or_targets` must have one entry for each of the 3 rows"),
        ({"loss": torch.zeros(3, 2)}, r"`loss` .* found shape \(3, 2\)"),
        ({"scores": torch.zeros(3, 2), "task": "regression"}, "`scores`"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given = {"groups": torch.zeros(3, dtype=torch.int64), "labels_or_targets": torch.zeros(3), "scores": torch.zeros(3)}
    with pytest.raises(SettingError, match=message):
        group_table(**(given | change))
