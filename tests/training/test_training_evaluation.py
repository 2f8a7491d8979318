"""Scores of one point, and which point is the best feasible one."""

import math

import pytest
import torch

from drobench.errors import SettingError
from drobench.objective.forms import stationarity
from drobench.problem.metrics import SplitScore
from drobench.training.evaluation import Evaluator, Scores, better_feasible
from drobench.training.settings import EvaluationConfig

POINT = torch.tensor([3.0, -4.0], dtype=torch.float64)
VALUE = 12.5


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_an_impossible_frequency_is_refused(value):
    with pytest.raises(SettingError, match="every_passes"):
        EvaluationConfig(every_passes=value)


def test_every_metric_lands_in_its_field(scripted_problem):
    problem = scripted_problem(
        {
            "train": SplitScore(0.1, -0.01, -0.02, -0.03),
            "validation": SplitScore(0.2, 0.02, 0.7, 0.8),
            "test": SplitScore(0.3, 0.03, 0.04, 0.05),
        }
    )
    scores = Evaluator(problem, 2.5).score(POINT, 17)
    assert scores.as_dict() == {
        "step": 17,
        "objective": VALUE,
        "gap": 10.0,
        "train_error": 0.1,
        "validation_error": 0.2,
        "test_error": 0.3,
        "train_max_violation": -0.01,
        "validation_max_violation": 0.02,
        "test_max_violation": 0.03,
        "test_p95_violation": 0.04,
        "test_p99_violation": 0.05,
        "stationarity": 25.0,
        "feasible": True,
        "extra": {},
    }
    assert sorted(problem.asked) == ["test", "train", "validation"]


def test_splits_that_do_not_exist_have_no_scores(scripted_problem):
    scores = Evaluator(scripted_problem({"train": SplitScore(error=0.25)}), None).score(POINT, 0)
    known = {"step": 0, "objective": VALUE, "train_error": 0.25, "stationarity": 25.0, "feasible": True, "extra": {}}
    assert {name: value for name, value in scores.as_dict().items() if value is not None} == known


@pytest.mark.parametrize(
    ("violation", "tolerance", "feasible"),
    [
        (None, 0.0, True),
        (-0.5, 0.0, True),
        (0.0, 0.0, True),
        (1e-12, 0.0, False),
        (0.01, 0.01, True),
        (0.011, 0.01, False),
        (-0.005, -0.01, False),
        (math.nan, 1.0, False),
        (math.inf, 1.0, False),
    ],
)
def test_feasible_is_a_training_violation_of_at_most_the_tolerance(scripted_problem, violation, tolerance, feasible):
    problem = scripted_problem(
        {
            "train": SplitScore(error=0.1, max_violation=violation),
            # What happens on other rows decides nothing.
            "validation": SplitScore(error=0.1, max_violation=9.0 if feasible else -9.0),
            "test": SplitScore(error=0.1, max_violation=9.0 if feasible else -9.0),
        },
        tolerance,
    )
    scores = Evaluator(problem, 2.5).score(POINT, 0)
    assert scores.feasible is feasible
    assert scores.gap == (10.0 if feasible else None)
    assert scores.objective == VALUE


def test_the_gap_is_signed_and_absolute(scripted_problem):
    problem = scripted_problem({})
    assert Evaluator(problem, 20.0).score(POINT, 0).gap == -7.5
    assert Evaluator(problem, None).score(POINT, 0).gap is None


@pytest.mark.parametrize("coordinate", [math.nan, math.inf])
def test_a_point_that_is_no_number_has_no_gap(scripted_problem, coordinate):
    scores = Evaluator(scripted_problem({}), 2.5).score(torch.tensor([coordinate, 0.0]), 0)
    assert not math.isfinite(scores.objective)
    assert scores.gap is None


def test_extra_metrics_are_carried_under_the_name_of_their_split(scripted_problem):
    problem = scripted_problem(
        {"train": SplitScore(extra={"auc": 0.9, "ndcg": 0.8}), "test": SplitScore(extra={"auc": 0.7})}
    )
    assert Evaluator(problem, None).score(POINT, 0).extra == {"train_auc": 0.9, "train_ndcg": 0.8, "test_auc": 0.7}


def test_a_real_problem_is_scored_on_its_own_form(bench):
    point = torch.randn(bench.start.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    scores = Evaluator(bench.problem, 0.125).score(point, 4)
    assert scores.objective == float(bench.problem.form.value(point))
    assert scores.gap == scores.objective - 0.125
    assert scores.stationarity == float(stationarity(bench.problem.form, point))
    for split in ("train", "validation", "test"):
        found = bench.problem.score(point, split)
        assert getattr(scores, f"{split}_error") == found.error
        assert scores.extra[f"{split}_worst_case_risk"] == found.extra["worst_case_risk"]
    assert scores.train_max_violation is None
    assert scores.feasible


def scored(objective=1.0, error=None, feasible=True) -> Scores:
    empty = dict.fromkeys(Scores.__dataclass_fields__)
    return Scores(
        **{**empty, "step": 0, "objective": objective, "validation_error": error, "feasible": feasible, "extra": {}}
    )


@pytest.mark.parametrize(
    ("new", "best", "better"),
    [
        # The first feasible one, whatever its scores.
        (scored(1e9, 0.9), None, True),
        (scored(1e9), None, True),
        # Validation error first, the objective between equals.
        (scored(5.0, 0.1), scored(1.0, 0.2), True),
        (scored(1.0, 0.2), scored(5.0, 0.1), False),
        (scored(1.0, 0.2), scored(5.0, 0.2), True),
        (scored(5.0, 0.2), scored(1.0, 0.2), False),
        (scored(1.0, 0.2), scored(1.0, 0.2), False),
        # Without it the objective alone.
        (scored(1.0), scored(2.0), True),
        (scored(2.0), scored(1.0), False),
        (scored(1.0), scored(1.0), False),
        # Infeasible never.
        (scored(0.0, 0.0, feasible=False), None, False),
        (scored(0.0, 0.0, feasible=False), scored(9.0, 0.9), False),
        (scored(0.0, None, feasible=False), scored(9.0), False),
        # Not a number never, however low.
        (scored(math.nan, 0.0), None, False),
        (scored(math.inf, 0.0), scored(9.0, 0.9), False),
        (scored(-math.inf), scored(9.0), False),
    ],
)
def test_which_of_two_points_is_the_better_feasible_one(new, best, better):
    assert better_feasible(new, best) is better


def test_a_validation_error_that_is_no_number_does_not_stand_in_the_way_for_ever():
    unknown = scored(5.0, math.nan)
    assert not better_feasible(unknown, scored(9.0, 0.9))
    assert better_feasible(scored(9.0, 0.9), unknown)


@pytest.mark.parametrize("every", [1e-320, 5e-324, 9e-10])
def test_looks_are_not_closer_than_numbers_can_tell(every):
    with pytest.raises(SettingError, match="every_passes must be at least 1e-09"):
        EvaluationConfig(every_passes=every)
    assert EvaluationConfig(every_passes=1e-9).every_passes == 1e-9
