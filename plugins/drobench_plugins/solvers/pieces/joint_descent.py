"""One optimizer on parameters and multipliers together: the step that the Lagrangian solvers share.

With multipliers `lambda_k(phi) >= 0`, differentiable proxies `p_k` and exact rates `c_k` of the drawn constraints `C`,
every step takes the gradient of

    mean loss(theta) + sum_C stop(lambda_k) p_k(theta) - dual_scale sum_C lambda_k(phi) stop(c_k(theta))

by `theta` and `phi` at the old point, and hands both to one optimizer:

    adagrad  A += g^2;  u -= eta g / (sqrt(A) + eps)            on u = (theta, phi), with one A from `accumulator` on
    sgd      theta <- prox_{eta r}(theta - eta g_theta);  phi -= eta g_phi
    adam     m, v: running means of g and g^2;  u -= eta m^ / (sqrt(v^) + eps), with bias corrections

The sum over `C` is not scaled up to all constraints, as in the released code of the method. Adagrad and Adam take the
gradient of the regularizer (a diagonal metric has no closed-form proximal map).
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.errors import DrobenchError, SettingError, require_non_negative, require_one_of, require_positive
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.sampling import Rows
from drobench.solver import Communicator, Solver
from drobench_plugins.solvers.pieces.best_candidate import Candidates, add_candidate, best_point, no_candidates
from drobench_plugins.solvers.pieces.multipliers import MultiplierModel, Multipliers

_FIRST_DECAY, _SECOND_DECAY = 0.9, 0.999


@dataclass
class JointDescentConfig:
    """Hyperparameters that all Lagrangian solvers have."""

    optimizer: str = "adagrad"
    """`adagrad`, `sgd` or `adam`, on parameters and multipliers together."""
    learning_rate: float = 0.1
    accumulator: float = 0.1
    """Start of Adagrad's sums of squares. Keras has 0.1, torch 0, with which `dual_scale` has no effect."""
    epsilon: float = 1e-7
    """Added to the roots of Adagrad and Adam; 1e-7 as in Keras."""
    dual_scale: float = 1.0
    """How much faster the multipliers move than a plain ascent would move them."""
    dual_rates: bool = True
    """Move the multipliers by the exact rates; false: by the differentiable proxies."""
    batch: int | None = None
    """Samples of the mean loss in a step; null: all."""
    constraint_batch: int | None = None
    """Constraints of a step; null: all."""
    constraint_order: str = "uniform"
    """`uniform`: drawn at random. `cyclic`: the next ones in turn."""
    replacement: bool = False
    average: bool = False
    """Also keep the running mean of the iterates."""
    output: str = "last"
    """`last`, or `best_candidate` among the snapshots."""
    snapshot_every: int | None = None
    """Steps between snapshots, each of which costs a pass over all samples and all constraints; null: none."""
    snapshot_from: int = 0
    """No snapshot before this step."""
    snapshots: int = 100
    """How many points of snapshots to hold at most."""
    rank_objectives: bool = True
    """Rank snapshots by objective and violation; false: by violation, the objective decides between equals."""

    def __post_init__(self) -> None:
        require_one_of(self, "optimizer", ("adagrad", "sgd", "adam"))
        require_one_of(self, "constraint_order", ("uniform", "cyclic"))
        require_one_of(self, "output", ("last", "best_candidate"))
        require_positive(self, "learning_rate", "batch", "constraint_batch", "snapshot_every", "snapshots")
        require_non_negative(self, "accumulator", "epsilon", "dual_scale", "snapshot_from")
        if self.output == "best_candidate" and self.snapshot_every is None:
            raise SettingError(
                f"{type(self).__name__}.output=best_candidate chooses among snapshots, but snapshot_every=null takes "
                "none. Change `snapshot_every=` or `output=`."
            )


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
        _require_drawable_constraints(oracle)
        multipliers = self.model.start(oracle)
        zeros = torch.zeros_like(torch.cat([start, multipliers.parameters]))
        accumulator = self.config.accumulator if self.config.optimizer == "adagrad" else 0.0
        return JointState(
            point=start,
            multipliers=multipliers,
            steps=0,
            first_moment=zeros,
            second_moment=torch.full_like(zeros, accumulator),
            mean=torch.zeros_like(start) if self.config.average else None,
            candidates=None if self.config.snapshot_every is None else no_candidates(start),
        )

    def step(self, state: JointState, oracle: ConstrainedOracle, communicator: Communicator) -> JointState:
        by_point, by_multipliers = self._gradient(state, oracle, communicator)
        if self.config.optimizer != "sgd":
            by_point = by_point + oracle.regularizer_gradient(state.point)
        count = state.steps + 1
        change, first, second = self._change(torch.cat([by_point, by_multipliers]), state, count)
        size = len(state.point)
        point = state.point - change[:size]
        if self.config.optimizer == "sgd":
            point = oracle.prox(point, self.config.learning_rate)
        parameters = self.model.project(state.multipliers.parameters - change[size:])
        return JointState(
            point=point,
            multipliers=replace(state.multipliers, parameters=parameters),
            steps=count,
            first_moment=first,
            second_moment=second,
            mean=None if state.mean is None else state.mean + (point - state.mean) / count,
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
        first, last = oracle.shard.bounds(size)
        turn = (steps * size + torch.arange(first, last, device=oracle.device)) % total
        return rows._replace(constraints=turn, constraint_share=(last - first) / size, covered=size / total)

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
        loss, primal, dual, multiplier, violation = _totals(
            communicator,
            [
                loss,
                pull_proxies(primal_weights[None, None])[0, 0],
                pull_multipliers(dual_weights),
                multipliers.sum(),
                violations.sum(),
            ],
        )
        if self.broadcast_defect:
            drawn = min(self.config.constraint_batch or oracle.constraints, oracle.constraints)
            loss, primal, dual = drawn**2 * loss, multiplier * primal, violation * dual
        return loss + primal, -self.config.dual_scale * dual

    def _change(self, gradient: Tensor, state: JointState, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return what to subtract from parameters and multipliers, and the new moments."""
        rate, epsilon = self.config.learning_rate, self.config.epsilon
        first, second = state.first_moment, state.second_moment
        if self.config.optimizer == "sgd":
            return rate * gradient, first, second
        if self.config.optimizer == "adagrad":
            second = torch.addcmul(second, gradient, gradient)
            return rate * gradient / second.sqrt().add_(epsilon), first, second
        first = torch.lerp(first, gradient, 1.0 - _FIRST_DECAY)
        second = torch.addcmul(_SECOND_DECAY * second, gradient, gradient, value=1.0 - _SECOND_DECAY)
        scale = (second.sqrt() / (1.0 - _SECOND_DECAY**count) ** 0.5).add_(epsilon)
        return rate / (1.0 - _FIRST_DECAY**count) * first / scale, first, second

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
        rows = oracle.draw()
        objective = point.new_zeros(())
        if oracle.samples:
            objective = oracle.objective(point[None], rows)[0][0] * rows.sample_share
        # A process may hold no constraint, and what a maximum over processes makes of "not a number" is not defined.
        rates = torch.cat([oracle.violations(point[None], rows)[0], point.new_zeros(1)])
        violation = torch.where(rates.isnan(), torch.inf, rates).max()
        (objective,) = _totals(communicator, [objective])
        if communicator.world_size > 1:
            violation = communicator.maximum(violation)
        return add_candidate(
            candidates,
            point,
            objective,
            violation,
            rank_objectives=self.config.rank_objectives,
            capacity=self.config.snapshots,
        )


def calls_per_step(config: JointDescentConfig, oracle: ConstrainedOracle) -> set[int]:
    """Return what a step may cost: samples, constraints once or twice, and at a snapshot everything once more."""
    samples = min(config.batch or oracle.samples, oracle.samples)
    constraints = min(config.constraint_batch or oracle.constraints, oracle.constraints)
    step = samples + constraints * (2 if config.dual_rates else 1)
    return {step} if config.snapshot_every is None else {step, step + oracle.samples + oracle.constraints}


def _require_drawable_constraints(oracle: ConstrainedOracle) -> None:
    """Refuse problems whose constraints this method would not, or not all, see."""
    if not oracle.constraints:
        raise DrobenchError("This problem has no constraints to put multipliers on. Use solver=unconstrained.")
    if oracle.cheap_constraints:
        raise DrobenchError(
            f"The problem has {oracle.cheap_constraints} constraint(s) that are not drawn, to which this method would "
            "give no multiplier. Use a solver of the smoothed penalty, such as solver=gcivr."
        )


def _totals(communicator: Communicator, parts: list[Tensor]) -> list[Tensor]:
    return communicator.total(parts) if communicator.world_size > 1 else parts
