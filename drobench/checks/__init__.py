"""Checks that any plugin can be held against, ours or a stranger's.

    from drobench.checks import SolverChecks

    class TestMySolver(SolverChecks):
        name = "my_solver"

and pytest runs one test for each thing that a solver promises. `ProblemChecks`, `DatasetChecks`, `ModelChecks`,
`LossChecks` and `ReformulationChecks` work alike. The same classes are behind `drobench check NAME`. They need pytest:
`pip install 'drobench[checks]'`.
"""

from drobench.checks.dataset_checks import DatasetChecks
from drobench.checks.known_solutions import KnownProblem
from drobench.checks.loss_checks import LossChecks
from drobench.checks.model_checks import ModelChecks
from drobench.checks.problem_checks import ProblemChecks
from drobench.checks.reformulation_checks import ReformulationChecks
from drobench.checks.solver_checks import SolverChecks
from drobench.checks.subject import Checks

__all__ = [
    "Checks",
    "DatasetChecks",
    "KnownProblem",
    "LossChecks",
    "ModelChecks",
    "ProblemChecks",
    "ReformulationChecks",
    "SolverChecks",
]
