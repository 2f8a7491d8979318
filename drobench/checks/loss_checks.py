"""What every loss promises."""

from drobench.checks.losses.convexity import LossConvexityChecks
from drobench.checks.losses.derivatives import LossDerivativeChecks
from drobench.checks.losses.values import LossValueChecks


# The checks of the last base run first.
class LossChecks(LossConvexityChecks, LossDerivativeChecks, LossValueChecks):
    """One test for each thing that a loss promises.

    class TestMyLoss(LossChecks):
        name = "my_loss"
    """
