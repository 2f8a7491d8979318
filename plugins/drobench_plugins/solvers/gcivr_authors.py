"""GCIVR as the released scripts of its authors have it, which is not the method of their paper.

Kept to see what the scripts compute; `gcivr` is the method. For smoothed constraints, where `f(y) = gamma ln y`:

    start    y uniform on (0, 1),  z = 0
    refresh  every `refresh_every` steps, or never:  y = mean g(x),  z = mean g'(x)  over all constraints
    advance  y += mean_S [g(x) - g(x_prev)],  z alike
    measure  w = mean h'(x)  in every step, on all samples or on those drawn
    step     d = z^T (1 / y) + w + weight_decay x;  A += d^2;  x -= eta d / (sqrt(A) + 1e-10)

Without a refresh `y` and `z` stay off by what they were off at the start: `y = u + g(x) - g(x_0)` and
`z = g'(x) - g'(x_0)` with full draws. Nothing keeps `y` positive, and there is no projection.

State: the point and the previous point, the estimates (p + p d numbers), Adagrad's sums, the number of steps. Cost of a
step: S sample calls and 2 C constraint checks, or all M of the latter once at a refresh.

Reference: the released code of Haddadpour, Kamani, Mahdavi, Karbasi (ICLR 2022), from a description of it; see
docs/authors-settings.md.

Deviations from the scripts:
    - a problem's own regularizer, which the scripts do not have, is applied by its proximal map: set `problem.l2=0`;
    - exponentials that would overflow are held at a shift, as everywhere in drobench; no other number changes by it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    TORCH_EPSILON,
    Capability,
    Communicator,
    Composite,
    CompositeOracle,
    DrobenchError,
    Estimates,
    Rows,
    Solver,
    adagrad,
    refresh,
    require_non_negative,
    require_positive,
    sample,
)
from drobench_plugins.solvers.pieces.draws_in_turn import samples_and_their_constraints


@dataclass
class GcivrAuthorsConfig:
    """Hyperparameters of the scripts; the defaults are those of the one for Adult."""

    learning_rate: float = 0.01
    weight_decay: float = 0.0
    """What times the point is added to the direction before Adagrad sees it."""
    refresh_every: int | None = None
    """Steps from one refresh on all constraints to the next, the first at the start; null: never."""
    constraint_batch: int | None = None
    """Constraints of a step; null: all."""
    replacement: bool = True
    """Draw with replacement."""
    whole_samples: bool = True
    """Evaluate the objective on all samples in every step; false: on `batch` of them."""
    batch: int = 1
    in_turn: bool = False
    """Take the samples one after the other, and of the constraints those of the same samples (queries)."""
    drop_gamma: bool = True
    """Take `1 / y` for `f'(y) = gamma / y`, which makes `reformulation.alpha` count only as `alpha / gamma`."""

    def __post_init__(self) -> None:
        require_positive(self, "learning_rate", "refresh_every", "constraint_batch", "batch")
        require_non_negative(self, "weight_decay")


@dataclass(frozen=True)
class GcivrAuthorsState:
    """Everything that is carried from step to step."""

    point: Tensor
    previous: Tensor
    inner_value: Tensor
    """`(p,)`, the `y` of the literature."""
    inner_jacobian: Tensor
    """`(p, d)`, its `z`."""
    shift: Tensor
    """The shift at which these two are held."""
    squares: Tensor
    """Adagrad's sums of squared directions."""
    steps: int


class GcivrAuthors(Solver[GcivrAuthorsState]):
    """See the module's text."""

    def __init__(self, config: GcivrAuthorsConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> GcivrAuthorsState:
        self._check(oracle)
        return GcivrAuthorsState(
            point=start,
            previous=start,
            inner_value=start.new_tensor(oracle.generator.random(oracle.outputs)),
            inner_jacobian=start.new_zeros(oracle.outputs, len(start)),
            shift=start.new_zeros(()),
            squares=torch.zeros_like(start),
            steps=0,
        )

    def step(self, state: GcivrAuthorsState, oracle: CompositeOracle, communicator: Communicator) -> GcivrAuthorsState:
        every = self.config.refresh_every
        if every is not None and state.steps % every == 0:
            rows = oracle.draw(self._samples, None, replacement=self.config.replacement)
            now = refresh(oracle, communicator, state.point, rows)
        else:
            now = self._advance(state, oracle, communicator)
        slope = now.inner_value.reciprocal()
        if not self.config.drop_gamma:
            slope = oracle.outer_gradient(now.inner_value, now.shift)
        direction = now.inner_jacobian.T @ slope + now.loss_gradient + self.config.weight_decay * state.point
        rate = self.config.learning_rate
        step, squares = adagrad(direction, state.squares, rate=rate, epsilon=TORCH_EPSILON["adagrad"])
        return GcivrAuthorsState(
            point=oracle.prox(step.from_point(state.point), rate),
            previous=state.point,
            inner_value=now.inner_value,
            inner_jacobian=now.inner_jacobian,
            shift=now.shift,
            squares=squares,
            steps=state.steps + 1,
        )

    def solution(self, state: GcivrAuthorsState) -> Tensor:
        return state.point

    @property
    def _samples(self) -> int | None:
        """How many samples a step draws; `None`: all."""
        return None if self.config.whole_samples else self.config.batch

    def _advance(self, state: GcivrAuthorsState, oracle: CompositeOracle, communicator: Communicator) -> Estimates:
        """Return the estimates moved on by an increment, with the loss gradient measured afresh."""
        rows = self._next(state.steps, oracle)
        here = sample(oracle, communicator, state.point, rows, state.shift)
        # The objective is not asked for at the previous point: nothing of it is carried over.
        constraints = rows._replace(samples=None, drawn_samples=0)
        there = sample(oracle, communicator, state.previous, constraints, here.shift)

        def moved(old: Tensor, new: Tensor, less: Tensor) -> Tensor:
            # Either evaluation may have raised the shift.
            increment = oracle.rescale(new, here.shift, there.shift) - less
            return oracle.rescale(old, state.shift, there.shift) + increment

        return Estimates(
            moved(state.inner_value, here.inner_value, there.inner_value),
            moved(state.inner_jacobian, here.inner_jacobian, there.inner_jacobian),
            here.loss_value,
            here.loss_gradient,
            there.shift,
        )

    def _next(self, steps: int, oracle: CompositeOracle) -> Rows:
        """Return this process's part of the rows of step number `steps`, counted from zero."""
        if not self.config.in_turn:
            return oracle.draw(self._samples, self.config.constraint_batch, replacement=self.config.replacement)
        size = min(self.config.batch, oracle.samples)
        return samples_and_their_constraints(steps, size, oracle, whole_samples=self.config.whole_samples)

    def _check(self, oracle: CompositeOracle) -> None:
        """Refuse problems that the scripts have nothing to say about."""
        if self.config.in_turn and (not oracle.samples or oracle.constraints % oracle.samples):
            raise DrobenchError(
                f"gcivr_authors: in_turn=true needs equally many constraints for each sample; found "
                f"{oracle.constraints} constraints and {oracle.samples} samples. Use in_turn=false."
            )


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="gcivr_authors",
        summary="GCIVR as the released scripts have it: estimates seldom or never refreshed, steps of Adagrad.",
        reference="Released code of Haddadpour, Kamani, Mahdavi, Karbasi (ICLR 2022)",
        config=GcivrAuthorsConfig,
        factory=GcivrAuthors,
        accepts=(Composite,),
        requires=(Capability.CONSTRAINTS,),
        no_goal="the scripts start their estimates at random numbers and, by default, never refresh them",
    )
