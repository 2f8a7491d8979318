"""The step size a method begins with: a setting, or what the data say at the start."""

import math
from dataclasses import dataclass

from torch import Tensor

from drobench.errors import SettingError, require_one_of, require_positive
from drobench.objective.oracles.composite import CompositeOracle
from drobench.solver.communicator import Communicator
from drobench.solver.curvature import NoCurvature, block_curvature, largest_curvature
from drobench.solver.estimators import direction, refresh
from drobench.solver.smoothness import measure_smoothness

# How far a first step goes where no curvature says how far it may, relative to the size of the point.
_BLIND_MOVE = 0.1


@dataclass(kw_only=True)
class StepConfig:
    """The step size, or how it follows from the data."""

    step_size: float | None = None
    """The (first) step size; null: `step_scale / L` with the largest curvature L at the start (Lanczos method)."""
    step_scale: float = 1.0
    """Factor of what follows from the data."""

    def __post_init__(self) -> None:
        require_positive(self, "step_size", "step_scale")


@dataclass(kw_only=True)
class StepRuleConfig(StepConfig):
    """The step size, or by which rule it follows from the data."""

    step_rule: str = "curvature"
    """`curvature`: 1 / L with the largest curvature L at the start. `theorem`: what the descent lemma allows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "step_rule", ("curvature", "theorem"))


def first_step(config: StepConfig, oracle: CompositeOracle, communicator: Communicator, start: Tensor) -> float:
    """Return the step size a method begins with; one from the data is at most what the form says is safe.

    Data are asked for, and counted, only where the settings name no step size; the result is the same everywhere.
    """
    asked = step_by_rule(config, oracle, communicator, start)
    return asked if config.step_size is not None else min(asked, oracle.largest_step)


def step_by_rule(config: StepConfig, oracle: CompositeOracle, communicator: Communicator, start: Tensor) -> float:
    """Return the step size before the form has its say."""
    if config.step_size is not None:
        return config.step_size
    if not isinstance(config, StepRuleConfig):
        return config.step_scale / largest_curvature(oracle, communicator, start)
    if config.step_rule == "curvature":
        return config.step_scale * (1.0 / largest_curvature(oracle, communicator, start))
    if oracle.constraints:
        raise SettingError(
            "solver.step_rule=theorem needs the constants of single samples, and this problem averages over "
            f"{oracle.constraints} constraints. Use step_rule=curvature or set solver.step_size."
        )
    return config.step_scale * measure_smoothness(oracle, communicator, start).largest_step


def guarded_step(
    config: StepConfig, oracle: CompositeOracle, communicator: Communicator, start: Tensor, *, scaled: bool = True
) -> tuple[float, float, float]:
    """Return step size, its ceiling, and how much longer steps are for dual variables, of a method that undoes rises.

    Where nothing curves, a step is taken that moves the point by a tenth of its size: what it leads to is measured.
    Without `scaled`, steps are as long for dual variables as for parameters.
    """
    if config.step_size is not None:
        return config.step_size, config.step_size, 1.0
    scale = 1.0
    try:
        if scaled and oracle.scaled_duals and getattr(config, "step_rule", "curvature") == "curvature":
            curvature, scale = block_curvature(oracle, communicator, start)
            ceiling = config.step_scale / curvature
        else:
            ceiling = step_by_rule(config, oracle, communicator, start)
    except NoCurvature:
        slope = float(direction(refresh(oracle, communicator, start, oracle.draw()), oracle).norm())
        if not math.isfinite(slope):
            raise
        ceiling = _BLIND_MOVE * (1.0 + float(start.norm())) / slope if slope > 0.0 else 1.0
    return min(ceiling, oracle.largest_step), ceiling, scale
