"""The counted oracle: the only way for a solver to touch data.

Counting happens here, around the mathematics, and never in a solver. One *call* is one row at one point, whatever is
computed there; calls on samples and checks of constraints are counted apart. What can be asked depends on the form:
one class for each in `oracles`.
"""

from abc import ABC
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.moved import moved
from drobench.objective.clients import ClientDraw, Clients
from drobench.objective.regularizers import Regularizer, SingleBound, single_bound
from drobench.objective.sampling import Index, Rows, Shard, index_length, sample_by_chances, sample_indices


@dataclass
class Counters:
    """What has been asked of an oracle so far."""

    sample_calls: int = 0
    inner_values: int = 0
    inner_jacobians: int = 0
    loss_gradients: int = 0
    constraint_checks: int = 0
    projections: int = 0
    hessian_rows: int = 0
    """Samples and constraints whose second derivatives went into a matrix."""
    hessian_products: int = 0
    """The same into a product with a vector, once for each vector."""

    @property
    def oracle_calls(self) -> int:
        """Sample calls and constraint checks together."""
        return self.sample_calls + self.constraint_checks

    def add(self, calls: int, *names: str) -> None:
        """Count so many calls under each of the names."""
        counted = vars(self)
        for name in names:
            counted[name] += calls

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class Oracle(ABC):
    """Counters, a seeded generator and draws from the two index sets.

    All processes of a run hold the same generator, so they agree on every draw without talking and each evaluates its
    own part: the union over processes is what a single process would have drawn. For the same reason each knows what
    all of them evaluate, and counts both: what it does itself, and what the run does.
    """

    dimension: int
    samples: int
    constraints: int
    constraint_rows: int = 0
    """Rows over which constraints are sums that can be pooled; 0: they are not, or cannot."""
    dtype: torch.dtype
    device: torch.device
    _cheap_constraints: int = 0
    """Constraints that every process evaluates whenever it evaluates any."""

    def __init__(self, form: Any, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008  # immutable
        self._form = form
        self.generator = np.random.default_rng(seed)
        self.counters = Counters()
        """What this process has evaluated."""
        self._totals = Counters()
        self.settled = True
        """Whether `totals` is known: not after rows that do not say how many all processes have; see `settle`."""
        self.shard = shard
        self.dtype, self.device = start.dtype, start.device

    @property
    def totals(self) -> Counters:
        """What all processes together have evaluated, the same on each of them and on any number of them."""
        return self.counters if self.shard.parts == 1 else self._totals

    def settle(self, totals: Counters) -> None:
        """Take over what the processes have found to be the sum of their counters."""
        self._totals = totals
        self.settled = True

    @property
    def passes(self) -> float:
        """Rows touched by this process over the number of rows: see `passes_of`."""
        return self.passes_of(self.counters.sample_calls, self.counters.constraint_checks)

    def passes_of(self, sample_calls: float, constraint_checks: float) -> float:
        """Return sample calls over samples; where there are no samples, constraint checks over constraints."""
        if self.samples:
            return sample_calls / self.samples
        return constraint_checks / self.constraints if self.constraints else 0.0

    def draw(self, samples: int | None = None, constraints: int | None = None, *, replacement: bool = False) -> Rows:
        """Draw rows from each index set; `None`, or a size not below the set's, is the exact full set."""
        sample_part, sample_share, sample_covered, all_samples = self._draw_set(self.samples, samples, replacement)
        constraint_part, constraint_share, constraint_covered, all_constraints = self._draw_set(
            self.constraints, constraints, replacement
        )
        covered = constraint_covered if self.constraints else sample_covered
        shares = sample_share, constraint_share
        return Rows(sample_part, constraint_part, *shares, covered, None, None, all_samples, all_constraints)

    def draw_by_chances(self, cumulative: Tensor, size: int) -> Rows:
        """Draw samples by chances, given their cumulative sums over all samples; see `sample_by_chances`.

        A size not below their number is the exact full set. There are no constraints in such a draw.
        """
        if size >= self.samples:
            return self.draw()
        rows, weights, covered = sample_by_chances(self.generator, cumulative, size)
        count = rows.numel()
        first, last = self.shard.bounds(count)
        return Rows(
            rows[first:last],
            sample_share=(last - first) / count,
            covered=covered,
            drawn_samples=count,
            drawn_constraints=0,
            sample_weights=weights[first:last].to(self.dtype),
        )

    def _draw_set(self, population: int, size: int | None, replacement: bool) -> tuple[Index | None, float, float, int]:
        """Return this process's part, its share, how much the whole draw covers, and how many rows that has."""
        if population == 0:
            return None, 1.0, 0.0, 0
        if size is not None and size < 1:
            raise DrobenchError(f"A draw must have at least one row; a solver asked for {size}.")
        if size is None or size >= population:
            first, last = self.shard.bounds(population)
            whole = slice(None) if self.shard.parts == 1 else slice(first, last)
            return whole, (last - first) / population, 1.0, population
        indices = sample_indices(self.generator, population, size, replacement)
        # A draw with repetitions is only known to cover one row.
        covered = (1 if replacement else size) / population
        if self.shard.parts == 1:
            return indices.to(self.device), 1.0, covered, size
        first, last = self.shard.bounds(size)
        return indices[first:last].to(self.device), (last - first) / size, covered, size

    def draw_by(
        self,
        clients: Clients,
        samples: int | None = None,
        constraints: int | None = None,
        *,
        replacement: bool = False,
    ) -> tuple[Rows, ...]:
        """Draw as `draw` does, each client from its own rows or its own part of the common stream.

        Returns what the clients on this process have drawn: one part where all rows count alike, else one for each
        weight that a row can have. Only the first part holds constraints.
        """
        first, last = self.shard.bounds(clients.count)
        draw = ClientDraw(clients, self.generator, self.device, first, last, replacement)
        parts, covered, all_samples = draw.samples(self.samples, samples)
        drawn, share, data, all_constraints = None, 1.0, None, 0
        if self.constraints:
            drawn, share, covered, data = draw.constraints(self.constraints, constraints, self.constraint_rows)
            all_constraints = self.constraints if constraints is None else min(constraints, self.constraints)
        # Processes may hold different numbers of parts, so that the first of each speaks for the whole draw.
        found = [Rows(index, None, weight, 0.0, covered, None, None, 0, 0) for index, weight in parts]
        found = found or [Rows(None, covered=covered)]
        found[0] = found[0]._replace(
            constraints=drawn,
            constraint_share=share,
            data=data,
            drawn_samples=all_samples,
            drawn_constraints=all_constraints,
        )
        return tuple(found)

    def _count_samples(self, rows: Rows, points: int, *also: str) -> None:
        """Count a call for each sample and point; the same number goes to the counters `also`."""
        here = 0 if rows.samples is None else index_length(rows.samples, self.samples)
        self.counters.add(here * points, "sample_calls", *also)
        if self.shard.parts > 1:
            drawn = self._drawn(rows.drawn_samples, self.samples)
            self._totals.add(drawn * points, "sample_calls", *also)

    def _count_constraints(self, rows: Rows, points: int, *also: str) -> None:
        """Count a check for each constraint and point; the same number goes to the counters `also`."""
        here = 0 if rows.constraints is None else index_length(rows.constraints, self.constraints)
        # Of the cheap constraints, which every process evaluates, the run as a whole needs one evaluation.
        cheap = 0 if rows.constraints is None else self._cheap_constraints
        if self.shard.rank > 0:
            # Each check of a constraint on the rows of all processes is one check.
            here = here if rows.data is None else 0
        else:
            here += cheap
        self.counters.add(here * points, "constraint_checks", *also)
        if self.shard.parts > 1:
            drawn = self._drawn(rows.drawn_constraints, self.constraints)
            self._totals.add((drawn + cheap) * points, "constraint_checks", *also)

    def _count_hessian(self, rows: Rows, name: str) -> None:
        """Count samples and constraints under a name of second derivatives, and nothing else."""
        here = 0 if rows.samples is None else index_length(rows.samples, self.samples)
        here += 0 if rows.constraints is None else index_length(rows.constraints, self.constraints)
        self.counters.add(here, name)
        if self.shard.parts > 1:
            drawn = self._drawn(rows.drawn_samples, self.samples)
            self._totals.add(drawn + self._drawn(rows.drawn_constraints, self.constraints), name)

    def _drawn(self, drawn: int | None, population: int) -> int:
        """Return how many rows of an index set all processes evaluate, or that this has to be found out."""
        if drawn is None and population:
            self.settled = False
        return drawn or 0

    def count_projection(self) -> None:
        """Count one projection: all processes project the same point, which for the run as a whole is one."""
        self._count_once(1, "projections")

    def _count_once(self, calls: int, name: str) -> None:
        """Count what all processes do alike, and one of them for the run as a whole."""
        if self.shard.rank == 0:
            self.counters.add(calls, name)
        if self.shard.parts > 1:
            self._totals.add(calls, name)

    def materialise(self) -> Any:
        """Return the whole problem, for reference solvers.

        In every oracle alike, each look counts one call for every sample, whatever is done with the problem afterwards;
        constraints are not counted. Where all processes look, that is one look of the run.
        """
        self._count_once(self.samples, "sample_calls")
        return self._form

    def state_dict(self) -> dict[str, Any]:
        """Return counters and generator, enough to go on exactly where this oracle stands."""
        generator = self.generator.bit_generator.state
        words = {key: str(value) for key, value in generator["state"].items()}
        state = {"counters": self.counters.as_dict(), "generator": {**generator, "state": words}}
        return {**state, "totals": self.totals.as_dict()} if self.settled else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; one without totals, as older versions saved it, leaves them to be settled."""
        self.counters = Counters(**state["counters"])
        self._totals = Counters(**state.get("totals", {}))
        self.settled = self.shard.parts == 1 or "totals" in state
        words = {key: int(value) for key, value in state["generator"]["state"].items()}
        self.generator.bit_generator.state = {**state["generator"], "state": words}


class ProximalOracle(Oracle):
    """An oracle of a form whose objective has a regularizer."""

    _regularizer: Regularizer

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        """Return the proximal map of `r`; where that is a projection it is counted as one."""
        if self._regularizer.is_indicator:
            self.count_projection()
        return self._regularizer.prox(point, step_size)

    @property
    def regularizer_is_smooth(self) -> bool:
        """Whether `r` has a gradient everywhere, so that methods may do without its proximal map."""
        return self._regularizer.is_smooth

    def regularizer_value(self, point: Tensor) -> Tensor:
        """Return `r(point)`, which asks for no data."""
        return self._regularizer.value(point)

    def regularizer_curvature(self, point: Tensor) -> Tensor:
        """Return the diagonal of the Hessian of a smooth `r`."""
        return self._regularizer.curvature(point)

    def regularizer_bound(self, point: Tensor) -> SingleBound | None:
        """Return what keeps `r` from being smooth, where that is an interval for one coordinate."""
        return single_bound(self._regularizer, point)

    def regularizer_prox(self, point: Tensor, step_size: float) -> Tensor:
        """Return the proximal map of `r` as a means of other computations, in which no iterate is projected."""
        return self._regularizer.prox(point, step_size)

    def regularizer_gradient(self, point: Tensor) -> Tensor:
        """Return a (sub)gradient of `r`, for methods without proximal step."""
        return self._regularizer.gradient(point)


__getattr__ = moved(
    __name__,
    {
        "CompositeOracle": "drobench.objective.oracles.composite",
        "FiniteSumOracle": "drobench.objective.oracles.finite_sum",
        "ConstrainedOracle": "drobench.objective.oracles.constrained",
        "MinMaxOracle": "drobench.objective.oracles.min_max",
        "GroupedMinMaxOracle": "drobench.objective.oracles.min_max",
        "ReferenceOracle": "drobench.objective.oracles.reference",
        "build_oracle": "drobench.objective.oracles.build",
    },
)
