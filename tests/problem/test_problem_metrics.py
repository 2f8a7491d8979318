"""Shared metrics, and what every problem inherits."""

import pytest
import torch

from drobench.objective.predictor import ModelConfig, build_predictor
from drobench.problem.metrics import SplitScore, binary_errors
from drobench.problem.problem import Problem


def errors_of(scores, signs, dtype=torch.float64):
    return binary_errors(torch.tensor(scores, dtype=dtype), torch.tensor(signs, dtype=dtype)).tolist()


def test_wrong_signs_are_errors():
    assert errors_of([2.0, -2.0, 2.0, -2.0], [1.0, -1.0, -1.0, 1.0]) == [0.0, 0.0, 1.0, 1.0]


def test_the_size_of_a_score_does_not_matter():
    assert errors_of([1e-300, 1e300, -1e-300, -1e300], [1.0, 1.0, 1.0, 1.0]) == [0.0, 0.0, 1.0, 1.0]


def test_ties_count_half():
    assert errors_of([0.0, 0.0, -0.0], [1.0, -1.0, 1.0]) == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scores_that_are_not_finite_are_errors_for_either_label(score, sign):
    assert errors_of([score, 3.0], [sign, 1.0]) == [1.0, 0.0]


def test_the_mean_error_is_a_number_even_if_a_score_is_not():
    scores = torch.tensor([float("nan"), 1.0, -1.0, 0.0], dtype=torch.float64)
    assert float(binary_errors(scores, torch.ones(4, dtype=torch.float64)).mean()) == 2.5 / 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_errors_have_the_type_and_shape_of_the_scores(dtype):
    scores, signs = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
    assert binary_errors(scores, signs).dtype == dtype
    assert binary_errors(scores, signs).shape == (3,)
    assert binary_errors(scores[:0], signs[:0]).shape == (0,)


def test_the_arguments_are_left_alone():
    scores = torch.tensor([float("inf"), 0.0, 2.0], dtype=torch.float64)
    signs = torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64)
    kept = scores.clone(), signs.clone()
    binary_errors(scores, signs)
    assert torch.equal(scores, kept[0])
    assert torch.equal(signs, kept[1])


def test_errors_agree_with_a_loop_over_random_scores():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(-2, 3, (200,), generator=generator).double()
    signs = torch.randint(0, 2, (200,), generator=generator).double() * 2 - 1
    expected = [0.5 if s == 0 else float((s > 0) != (y > 0)) for s, y in zip(scores, signs, strict=True)]
    assert binary_errors(scores, signs).tolist() == expected


def test_a_score_without_constraints_has_no_violations():
    score = SplitScore(error=0.25)
    assert (score.max_violation, score.p95_violation, score.p99_violation) == (None, None, None)
    assert score.extra == {}
    assert SplitScore().extra is not score.extra


class Untold(Problem):
    """A problem that adds nothing but its predictor."""

    def __init__(self, model):
        self.predictor = build_predictor(model, 3)

    def score(self, point, split):
        return None


@pytest.mark.parametrize("model", [ModelConfig(), ModelConfig("mlp", hidden=[4])], ids=["linear", "mlp"])
def test_a_problem_starts_where_its_predictor_starts(model):
    problem = Untold(model)
    found = problem.start(torch.Generator().manual_seed(5))
    expected = problem.predictor.start(torch.Generator().manual_seed(5))
    assert torch.equal(found, expected)
    assert found.dtype == torch.float64
    assert found.shape == (problem.predictor.dimension,)


def test_a_problem_tolerates_no_violation_unless_it_says_so():
    assert Untold(ModelConfig()).tolerance == 0.0


def test_a_problem_must_score():
    with pytest.raises(TypeError, match="score"):
        Problem()
