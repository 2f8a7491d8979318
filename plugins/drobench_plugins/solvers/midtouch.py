"""MidTouch: a few steps that look at all constraints, then many that look at a few. Reconstructed.

The first `T_1` steps are those of `fulltouch`. Their mean is the anchor `w`: all violations there are measured once and
kept. The steps after that, from the anchor on, are those of `lighttouch`, with the estimate anchored at `w`

    D = alpha (v + (M / k) sum_{j in C} e_j (max(0, c_j(x)) - v_j)),   v = max(0, c(w)),  C: k constraints, uniform
    p <- p exp(eta_p D) / norm

and step sizes that go on as if the first phase had been twice as long.

State: the point, probabilities and anchored violations (2 M numbers), the number of steps, two running means. Cost of a
step: S oracle calls and M constraint checks in the first phase; M once for the anchor; then 1 + k.

Reference: Cotter, Gupta, Pfeifer, "A light touch for heavily constrained SGD" (COLT 2016), MidTouch. A reconstruction:
the original's rules for `k`, for the length of the phases and its constants were not at hand, and the anchor is that of
variance-reduced methods.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import Capability, Communicator, Constrained, ConstrainedOracle, Rows, Solver, require_positive
from drobench_plugins.solvers.lighttouch import (
    ONE_PROCESS,
    LightTouchConfig,
    LightTouchState,
    ascend,
    draw_by,
    slope_of_one,
    violations,
)
from drobench_plugins.solvers.pieces.penalised_steps import (
    objective_gradient,
    penalty_of,
    worst_constraint,
)
from drobench_plugins.solvers.pieces.suffix_mean import extend, no_mean


@dataclass
class MidTouchConfig(LightTouchConfig):
    """Hyperparameters of MidTouch."""

    full_steps: int = 200
    """T_1, steps of the first phase."""
    constraint_batch: int = 2
    """k, constraints drawn for the adversary in a step of the second phase."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "full_steps", "constraint_batch")


class MidTouch(Solver[LightTouchState]):
    """See the module's text."""

    def __init__(self, config: MidTouchConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: ConstrainedOracle, communicator: Communicator) -> LightTouchState:
        unseen = start.new_zeros(oracle.constraints)
        uniform = torch.full_like(unseen, 1.0 / oracle.constraints)
        return LightTouchState(start, 0, no_mean(start), uniform, unseen)

    def step(self, state: LightTouchState, oracle: ConstrainedOracle, communicator: Communicator) -> LightTouchState:
        if state.steps < self.config.full_steps:
            return self._full_step(state, oracle, communicator)
        if state.steps == self.config.full_steps:
            assert state.mean.value is not None
            anchor = state.mean.value
            state = replace(state, point=anchor, seen=violations(oracle, anchor), mean=no_mean(anchor))
        return self._light_step(state, oracle, communicator)

    def _full_step(
        self, state: LightTouchState, oracle: ConstrainedOracle, communicator: Communicator
    ) -> LightTouchState:
        gradient = objective_gradient(oracle, communicator, state.point, self.config)
        violation, slope = worst_constraint(oracle, communicator, state.point)
        if not violation <= 0.0:
            gradient = gradient + penalty_of(self.config.penalty, oracle) * slope
        return self._moved(state, gradient, state.steps + 1, oracle)

    def _light_step(
        self, state: LightTouchState, oracle: ConstrainedOracle, communicator: Communicator
    ) -> LightTouchState:
        # As if the first phase had been twice as long.
        count = state.steps + 1 + self.config.full_steps
        alpha, total = penalty_of(self.config.penalty, oracle), oracle.constraints
        gradient = objective_gradient(oracle, communicator, state.point, self.config)
        gradient = gradient + alpha * slope_of_one(draw_by(state.probabilities, oracle), state.point, oracle)
        size = min(self.config.constraint_batch, total)
        drawn = torch.from_numpy(oracle.generator.choice(total, size, replace=False, shuffle=False)).to(oracle.device)
        values = oracle.surrogates(state.point[None], Rows(None, drawn, covered=size / total))[0][0].clamp(min=0.0)
        estimate = state.seen.index_add(0, drawn, (values - state.seen[drawn]) * (total / size))
        adversary_step = self.config.adversary_step * self.config.step_at(count) / self.config.step_size
        moved = self._moved(state, gradient, count, oracle)
        return replace(moved, probabilities=ascend(state.probabilities, alpha * adversary_step * estimate))

    def _moved(
        self, state: LightTouchState, gradient: Tensor, count: int, oracle: ConstrainedOracle
    ) -> LightTouchState:
        step_size = self.config.step_at(count)
        point = oracle.prox(state.point - step_size * gradient, step_size)
        mean = extend(state.mean, point, self.config.weight_at(count))
        return replace(state, point=point, steps=state.steps + 1, mean=mean)

    def solution(self, state: LightTouchState) -> Tensor:
        average = self.average(state)
        return state.point if self.config.output == "last" or average is None else average

    def average(self, state: LightTouchState) -> Tensor | None:
        return state.mean.value


def _calls_per_step(config: MidTouchConfig, oracle: ConstrainedOracle) -> set[int]:
    samples, total = min(config.batch or oracle.samples, oracle.samples), oracle.constraints
    light = 1 + min(config.constraint_batch, total)
    return {samples + total, samples + light, samples + total + light}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="midtouch",
        summary="Steps that look at all constraints first, then steps that look at a few, anchored at what was seen.",
        reference="Cotter, Gupta, Pfeifer (COLT 2016), MidTouch",
        config=MidTouchConfig,
        factory=MidTouch,
        accepts=(Constrained,),
        requires=(
            Capability.CONSTRAINTS,
            Capability.ONLY_NUMBERED_CONSTRAINTS,
        ),
        reconstructed=True,
        one_process=ONE_PROCESS,
        goal_gap=3e-2,
        calls_per_step=_calls_per_step,
    )
