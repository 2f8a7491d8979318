"""What drobench asks of everybody."""

from dataclasses import replace

import torch
from norm_ball_learning.ball import RidgeOnBall
from torch import Tensor

from drobench.checks import KnownProblem, ProblemChecks, SolverChecks
from drobench.problem.problem import Problem


class TestFrankWolfe(SolverChecks):
    name = "frank_wolfe"


class TestBallReference(SolverChecks):
    """It solves problems over balls only, of which drobench brings none along: here is one whose solution is inside."""

    name = "ball_reference"

    @classmethod
    def problems(cls, dtype: torch.dtype, *, spoiled: bool = False) -> list[KnownProblem]:
        known = {problem.name: problem for problem in super().problems(dtype, spoiled=spoiled)}
        plain = known["kl_logistic"]
        ball = RidgeOnBall(100.0, plain.form.regularizer.l2)
        return [replace(plain, name="kl_logistic_on_a_ball", form=replace(plain.form, regularizer=ball))]


class TestBallClassification(ProblemChecks):
    name = "ball_classification"

    def points(self, problem: Problem) -> list[Tensor]:
        """Look at points inside the ball: the objective is infinite elsewhere."""
        return [0.9 * problem.form.regularizer.prox(point, 0.0) for point in super().points(problem)]
