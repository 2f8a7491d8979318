"""How exactly the reference solver is to solve."""

from dataclasses import dataclass

from drobench.solver import require_positive


@dataclass
class Accuracy:
    """Tolerances of the two libraries that solve."""

    tolerance: float = 1e-12
    """Largest gradient component at which L-BFGS may stop."""
    iterations: int = 20000
    conic_tolerance: float = 1e-10

    def __post_init__(self) -> None:
        require_positive(self, "tolerance", "iterations", "conic_tolerance")
