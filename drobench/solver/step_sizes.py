"""The old name of `drobench.solver.curvature`."""

from drobench.moved import moved

__getattr__ = moved(
    __name__,
    {"largest_curvature": "drobench.solver.curvature", "rows_for_curvature": "drobench.solver.curvature"},
)
