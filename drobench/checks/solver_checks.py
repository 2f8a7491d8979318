"""What every solver promises."""

from drobench.checks.solvers.accuracy import AccuracyChecks
from drobench.checks.solvers.calls import CallChecks
from drobench.checks.solvers.checkpoints import CheckpointChecks
from drobench.checks.solvers.conduct import ConductChecks
from drobench.checks.solvers.forms import FormChecks
from drobench.checks.solvers.processes import ProcessChecks


# The checks of the last base run first.
class SolverChecks(ProcessChecks, AccuracyChecks, CheckpointChecks, CallChecks, ConductChecks, FormChecks):
    """One test for each thing that a solver promises.

        class TestMySolver(SolverChecks):
            name = "my_solver"

    What a solver claims about itself beyond the contract, such as its rate, is in the fields of its `SolverEntry`.
    """
