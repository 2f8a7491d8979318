"""The contract of a solver and the pieces that solvers share."""

from drobench.solver.communicator import Communicator, ProcessGroup, SingleProcess
from drobench.solver.solver import Solver

__all__ = ["Communicator", "ProcessGroup", "SingleProcess", "Solver"]
