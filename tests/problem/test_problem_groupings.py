"""Ways to cut rows into groups."""

import torch

from drobench.problem.groupings import groupings
from drobench.problem.row_scores import RowScores


def rows_with(attributes=None, groups=None, task="classification", rows=4):
    truth = torch.arange(rows) % 2
    return RowScores(truth, torch.zeros(rows), None, groups, attributes, task)


def test_groups_and_classes_are_those_of_the_rows():
    groups = torch.tensor([5, 5, 0, 1])
    found = groupings(rows_with(groups=groups), rows_with(groups=groups))
    assert [(grouping.name, grouping.member.tolist()) for grouping in found] == [
        ("group", [5, 5, 0, 1]),
        ("class", [0, 1, 0, 1]),
    ]
    assert [grouping.name for grouping in groupings(rows_with(task="regression"), rows_with())] == []


def test_an_attribute_is_cut_at_the_median_of_the_training_rows():
    training = rows_with(torch.tensor([[1.0], [2.0], [3.0], [9.0], [8.0]]), rows=5)
    found = groupings(rows_with(torch.tensor([[3.0], [3.5], [0.0], [9.0]])), training)[-1]
    assert found.name == "attribute 0"
    assert found.member.tolist() == [0, 1, 0, 1]
    assert found.labels == {0: "at most 3", 1: "above 3"}


def test_flags_are_cut_between_their_values_whichever_is_more_frequent():
    flags = torch.tensor([[0, 1, 7], [1, 0, 7], [1, 0, 7], [1, 0, 7]])
    found = groupings(rows_with(flags), rows_with(flags))[1:]
    assert [grouping.name for grouping in found] == ["attribute 0", "attribute 1"], "a constant cuts nothing"
    assert [grouping.member.tolist() for grouping in found] == flags.T[:2].tolist()


def test_pieces_of_a_split_are_joined():
    whole = RowScores.joined([rows_with(groups=torch.zeros(4)), rows_with(groups=torch.ones(4))])
    assert whole.truth.tolist() == [0, 1, 0, 1] * 2
    assert whole.groups.tolist() == [0.0] * 4 + [1.0] * 4
    assert whole.loss is whole.attributes is None
