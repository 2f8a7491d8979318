"""The contract of a reformulation."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass
class ReformulationConfig:
    """Options of the way from the native form to the solver's form.

    `alpha` and `gamma` are weight and width of the smoothed penalty for constraints (`gamma` is not the strength of a
    divergence penalty, which belongs to the problem); `continuation` lists the widths to pass through.
    """

    alpha: float | None = None
    gamma: float | None = None
    continuation: list[float] | None = None


class Reformulation(ABC):
    """One step `form -> form`, with a way to carry points in both directions."""

    name: str
    produces: type
    relaxation: bool = False
    """Whether something of the problem is given up, so that an exact solution of the new form may not solve the old."""

    projects: bool = False
    """Whether `recover` is a projection on the old form's feasible set, counted once at the end of a run."""

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
