"""When to stop: limits on work, targets on quality, and the two ways of failing numerically."""

import math
from dataclasses import dataclass

from drobench.errors import SettingError, require_positive
from drobench.results.record import Status

_LIMITS = ("passes", "oracle_calls", "seconds", "steps")
# A run has diverged once its objective is this many times the start's scale above the start. Large, since a solver
# with a safeguard may stray far before it undoes an epoch.
_DIVERGENCE = 1e6


@dataclass
class BudgetConfig:
    """Limits and targets; whichever comes first ends the run. `null` is no limit."""

    passes: float | None = None
    """Sample rows touched, per point, over the number of samples."""
    oracle_calls: int | None = None
    """Sample calls and constraint checks together."""
    seconds: float | None = None
    """Time of the solver alone, evaluation excluded."""
    steps: int | None = None
    target_gap: float | None = None
    """Relative: (value - optimum) / (value at the start - optimum)."""
    target_stationarity: float | None = None
    """Squared norm of the gradient mapping."""

    def __post_init__(self) -> None:
        require_positive(self, *_LIMITS, "target_gap", "target_stationarity")
        if all(getattr(self, name) is None for name in _LIMITS):
            raise SettingError(
                f"The budget sets no limit: expected at least one of {', '.join(f'budget.{n}' for n in _LIMITS)}, "
                "found none. Targets alone may never be reached; add for instance `budget.passes=40`."
            )


@dataclass(frozen=True)
class Usage:
    """How much a run has used so far, over all its processes."""

    steps: int
    passes: float
    oracle_calls: int
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """Why a run ends: a status of the closed list, and a sentence for people."""

    status: Status
    reason: str


class Budget:
    """Decides on the end of a run from numbers that are the same on every process."""

    def __init__(self, config: BudgetConfig) -> None:
        self.config = config

    def spent(self, usage: Usage) -> Verdict | None:
        """Return a verdict if a limit is used up."""
        for name in _LIMITS:
            limit, used = getattr(self.config, name), getattr(usage, name)
            if limit is not None and used >= limit:
                return Verdict(Status.BUDGET_SPENT, f"{name} {used:.6g} of {limit:.6g}")
        return None

    def reached(self, relative_gap: float | None, stationarity: float | None) -> Verdict | None:
        """Return a verdict if a target is met."""
        if _within(relative_gap, self.config.target_gap):
            return Verdict(
                Status.CONVERGED, f"relative gap {relative_gap:.3g} <= target_gap {self.config.target_gap:.3g}"
            )
        if _within(stationarity, self.config.target_stationarity):
            return Verdict(
                Status.CONVERGED,
                f"stationarity {stationarity:.3g} <= target_stationarity {self.config.target_stationarity:.3g}",
            )
        return None

    def lost(self, objective: float, start_objective: float) -> Verdict | None:
        """Return a verdict if the objective is no longer a number, or far above the start."""
        if not math.isfinite(objective):
            return Verdict(Status.NON_FINITE, f"the objective became {objective}")
        if objective - start_objective > _DIVERGENCE * max(1.0, abs(start_objective)):
            return Verdict(Status.DIVERGED, f"the objective rose from {start_objective:.6g} to {objective:.6g}")
        return None


def _within(value: float | None, target: float | None) -> bool:
    return value is not None and target is not None and value <= target
