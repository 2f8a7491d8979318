"""What every reformulation promises."""

from drobench.checks.reformulations.forms import ReformulationFormChecks
from drobench.checks.reformulations.values import ReformulationValueChecks


# The checks of the last base run first.
class ReformulationChecks(ReformulationValueChecks, ReformulationFormChecks):
    """One test for each thing that a reformulation promises.

        class TestMyReformulation(ReformulationChecks):
            name = "my_reformulation"

    It is tried on the `examples` of its entry (the method `forms`), on the known problems of the checks of solvers, and
    on those forms of the installed problems that it accepts.
    """
