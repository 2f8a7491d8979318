"""What is proved about a fitted model: a number that no parameters can go below."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drobench.app.optimum import convex_minorant
from drobench.objective.forms import Constrained, NativeForm
from drobench.reformulation.certificates import lower_bound
from drobench.results.parts import certified_within


@dataclass(frozen=True)
class Certificate:
    """How far a solution can be from the best there is.

    Attributes:
        objective: The exact robust objective of the solution, on the training rows.
        lower_bound: The optimum is not below this; `None` where nothing is known.
        proved_by: The solver whose solution the bound was computed from; it need not be the one of the fit.
        reason: Why there is no bound; empty where there is one, or where no reference solver failed.
    """

    objective: float
    lower_bound: float | None
    proved_by: str
    reason: str = ""

    @property
    def gap(self) -> float | None:
        """The solution is at most this far above the optimum; rounding may make it slightly negative."""
        return None if self.lower_bound is None else self.objective - self.lower_bound

    @property
    def tight(self) -> bool:
        """Whether solution and bound are the same but for 1e-6, relatively."""
        return self.gap is not None and self.gap <= certified_within(self.objective)


def provable(form: NativeForm) -> tuple[NativeForm | None, str]:
    """Return the convex form whose bounds hold for this one, or why nothing can be proved."""
    convex = convex_minorant(form)
    if convex is None:
        return None, "the problem is not convex"
    if isinstance(convex, Constrained) and not convex.constraints.exact:
        return None, "the constraints are on rates, of which what solvers see are only stand-ins"
    return convex, ""


@torch.no_grad()
def bound_below(form: NativeForm, point: Tensor, state: Any) -> tuple[float | None, str]:
    """Return a lower bound of the optimum from a point and what its solver knows, or why there is none."""
    convex, reason = provable(form)
    if convex is None:
        return None, reason
    bound = lower_bound(convex, point, getattr(state, "dual", None))
    if bound is None:
        weak = getattr(convex.regularizer, "strong_convexity", 0.0) == 0.0
        return None, "no lower bound is known for a problem of this kind" + (" without l2 > 0" if weak else "")
    return bound, ""
