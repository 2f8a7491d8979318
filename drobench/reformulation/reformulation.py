"""The contract of a reformulation: whether it applies, the new form, and how points go there and back."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from drobench.errors import DrobenchError
from drobench.reformulation.settings import ReformulationConfig

__all__ = ["Reformulation", "ReformulationConfig"]


class Reformulation(ABC):
    """One step `form -> form`, with a way to carry points in both directions."""

    name: str
    consumes: type = object
    """The class of the forms that `accepts` may accept: chains need not be made of what no step can begin from."""
    produces: type
    default_widths: tuple[float, ...] = ()
    """Smoothing widths to pass through, widest first; empty for an equivalent rewriting."""
    relaxation: bool = False
    """Whether something of the problem is given up, so that an exact solution of the new form may not solve the old."""

    final: bool = False
    """Whether no step may follow, so that only a solver that accepts what this one produces gets there."""

    projects: bool = False
    """Whether `recover` is a projection on the old form's feasible set, counted once at the end of a run."""

    def width_for(self, form: Any, error: float, options: ReformulationConfig) -> float:
        """Return the smoothing width at which the objective is off by at most `error`."""
        raise DrobenchError(
            f"reformulation.smoothing_error is not known to mean anything for {self.name}. Set reformulation.gamma."
        )

    @abstractmethod
    def accepts(self, form: Any) -> bool:
        """Return whether `apply` can rewrite `form`."""

    @abstractmethod
    def apply(self, form: Any, options: ReformulationConfig) -> Any:
        """Return the new form."""

    def lift(self, point: Tensor) -> Tensor:
        """Return the new form's variables for parameters `point` of the old."""
        return point

    def recover(self, point: Tensor) -> Tensor:
        """Return the parameters of the old form from a solution of the new; feasible where the old form asks for it."""
        return point
