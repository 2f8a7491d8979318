"""What drobench asks of everybody."""

from torch import Tensor

from drobench.checks import ProblemChecks, SolverChecks
from drobench.problem.problem import Problem


class TestFrankWolfe(SolverChecks):
    name = "frank_wolfe"


class TestBallReference(SolverChecks):
    name = "ball_reference"


class TestBallClassification(ProblemChecks):
    name = "ball_classification"

    def points(self, problem: Problem) -> list[Tensor]:
        """Look at points inside the ball: the objective is infinite elsewhere."""
        return [0.9 * problem.form.regularizer.prox(point, 0.0) for point in super().points(problem)]
