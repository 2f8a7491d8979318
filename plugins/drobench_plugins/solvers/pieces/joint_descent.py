"""One optimizer on parameters and multipliers together: the step that the Lagrangian solvers share.

With multipliers `lambda_k(phi) >= 0`, differentiable proxies `p_k` and exact violations `c_k` of the drawn constraints
`C`, every step takes the gradient of

    mean loss(theta) + sum_C stop(lambda_k) p_k(theta) - dual_scale sum_C lambda_k(phi) stop(c_k(theta))

by `theta` and `phi` at the old point, and hands both to one optimizer:

    sgd             theta <- prox_{eta r}(theta - eta g_theta);  phi -= eta g_phi
    adagrad, adam   u -= the step of `drobench.solver.adaptive`, on u = (theta, phi)

The sum over `C` is not scaled up to all constraints, as in the released code of the method. Adagrad and Adam take the
gradient of the regularizer (a diagonal metric has no closed-form proximal map).
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.solver import (
    Communicator,
    ConstrainedOracle,
    Moments,
    Rows,
    Solver,
    adaptive_step,
    extended_mean,
    no_moments,
)
from drobench_plugins.solvers.pieces.best_candidate import Candidates, add_candidate, best_point, no_candidates
from drobench_plugins.solvers.pieces.draws_in_turn import next_in_turn
from drobench_plugins.solvers.pieces.joint_config import JointDescentConfig
from drobench_plugins.solvers.pieces.multipliers import MultiplierModel, Multipliers
from drobench_plugins.solvers.pieces.snapshots import measure_snapshot


@dataclass(frozen=True)
class JointState:
    """Everything a Lagrangian solver carries from step to step."""

    # Every step.
    point: Tensor
    multipliers: Multipliers
    steps: int
    first_moment: Tensor
    """`(d + parameters of the multipliers,)`, Adam's running mean of gradients; zero for the others."""
    second_moment: Tensor
    """Of the same shape: Adagrad's sum, or Adam's running mean, of squared gradients."""
    mean: Tensor | None
    # At every snapshot.
    candidates: Candidates | None


class JointDescent(Solver[JointState]):
    """The shared step; a subclass chooses the multiplier model."""

    broadcast_defect = False
    """See `heavily_constrained`."""

    def __init__(self, config: JointDescentConfig, model: MultiplierModel) -> None:
        self.config = config
        self.model = model

    def init(self, start: Tensor, oracle: ConstrainedOracle, communicator: Communicator) -> JointState:
        multipliers = self.model.start(oracle)
        both = torch.cat([start, multipliers.parameters])
        moments = no_moments(both, self.config.optimizer, self.config.accumulator)
        return JointState(
            point=start,
            multipliers=multipliers,
            steps=0,
            first_moment=moments.first,
            second_moment=moments.second,
            mean=torch.zeros_like(start) if self.config.average else None,
            candidates=None if self.config.snapshot_every is None else no_candidates(start),
        )

    def step(self, state: JointState, oracle: ConstrainedOracle, communicator: Communicator) -> JointState:
        config, count, size = self.config, state.steps + 1, len(state.point)
        by_point, by_multipliers = self._gradient(state, oracle, communicator)
        proximal = config.optimizer == "sgd"
        if not proximal:
            by_point = by_point + oracle.regularizer_gradient(state.point)
        step, moments = adaptive_step(
            config.optimizer,
            torch.cat([by_point, by_multipliers]),
            Moments(state.first_moment, state.second_moment),
            count,
            rate=config.learning_rate,
            epsilon=config.epsilon,
        )
        both = step.from_point(torch.cat([state.point, state.multipliers.parameters]))
        point = oracle.prox(both[:size], config.learning_rate) if proximal else both[:size]
        return JointState(
            point=point,
            multipliers=replace(state.multipliers, parameters=self.model.project(both[size:])),
            steps=count,
            first_moment=moments.first,
            second_moment=moments.second,
            mean=None if state.mean is None else extended_mean(state.mean, point, count),
            candidates=self._extend(state.candidates, point, count, oracle, communicator),
        )

    def solution(self, state: JointState) -> Tensor:
        if self.config.output == "best_candidate" and state.candidates is not None:
            best = best_point(state.candidates, rank_objectives=self.config.rank_objectives)
            return state.point if best is None else best
        return state.point

    def average(self, state: JointState) -> Tensor | None:
        return state.mean if state.steps else None

    def _draw(self, steps: int, oracle: ConstrainedOracle) -> Rows:
        """Return this process's part of the rows of step number `steps`, counted from zero."""
        size, total = self.config.constraint_batch, oracle.constraints
        if self.config.constraint_order == "uniform" or size is None or size >= total:
            return oracle.draw(self.config.batch, size, replacement=self.config.replacement)
        rows = oracle.draw(self.config.batch, replacement=self.config.replacement)
        turn, share = next_in_turn(steps, size, total, oracle)
        return rows._replace(constraints=turn, constraint_share=share, covered=size / total, drawn_constraints=size)

    def _gradient(
        self, state: JointState, oracle: ConstrainedOracle, communicator: Communicator
    ) -> tuple[Tensor, Tensor]:
        """Return the gradient by the point, without the regularizer's, and that by the multipliers' parameters."""
        rows = self._draw(state.steps, oracle)
        assert rows.constraints is not None
        here = state.point[None]
        loss = torch.zeros_like(state.point)
        if oracle.samples:
            loss = oracle.objective(here, rows)[1][0] * rows.sample_share
        proxies, pull_proxies = oracle.surrogates(here, rows)
        violations = (oracle.violations(here, rows) if self.config.dual_rates else proxies)[0]
        multipliers, pull_multipliers = self.model.evaluate(state.multipliers, oracle, rows.constraints)
        # The defect multiplies sums where the method sums products, which must wait until all parts are in.
        primal_weights, dual_weights = multipliers, violations
        if self.broadcast_defect:
            primal_weights = dual_weights = torch.ones_like(multipliers)
        # A sum over the drawn constraints is that over the processes' parts of them, without shares.
        parts = [
            loss,
            pull_proxies(primal_weights[None, None])[0, 0],
            pull_multipliers(dual_weights),
            multipliers.sum(),
            violations.sum(),
        ]
        loss, primal, dual, multiplier, violation = communicator.total(parts) if communicator.world_size > 1 else parts
        if self.broadcast_defect:
            drawn = min(self.config.constraint_batch or oracle.constraints, oracle.constraints)
            loss, primal, dual = drawn**2 * loss, multiplier * primal, violation * dual
        return loss + primal, -self.config.dual_scale * dual

    def _extend(
        self,
        candidates: Candidates | None,
        point: Tensor,
        count: int,
        oracle: ConstrainedOracle,
        communicator: Communicator,
    ) -> Candidates | None:
        """Add the point to the snapshots, where one is due; its numbers are measured on everything."""
        every = self.config.snapshot_every
        if candidates is None or every is None or count < self.config.snapshot_from or count % every:
            return candidates
        objective, violation = measure_snapshot(point, oracle, communicator)
        return add_candidate(
            candidates,
            point,
            objective,
            violation,
            rank_objectives=self.config.rank_objectives,
            capacity=self.config.snapshots,
        )
