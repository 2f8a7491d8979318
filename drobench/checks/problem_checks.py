"""What every problem promises."""

from drobench.checks.problems.optimum import OptimumChecks
from drobench.checks.problems.posing import PosingChecks
from drobench.checks.problems.rewritings import RewritingChecks
from drobench.checks.problems.scores import ScoreChecks
from drobench.checks.problems.values import ValueChecks


# The checks of the last base run first.
class ProblemChecks(ScoreChecks, OptimumChecks, RewritingChecks, ValueChecks, PosingChecks):
    """One test for each thing that a problem promises.

        class TestMyProblem(ProblemChecks):
            name = "my_problem"

    Attributes:
        dataset: What to pose the problem on: the name of an installed dataset, a `Dataset`, or a fixture. Left empty,
            the first installed one that provides what the problem needs and has not to be fetched.
        dataset_settings: Settings of an installed dataset.
        model: The predictor.
    """
