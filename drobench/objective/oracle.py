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
from drobench.objective.regularizers import Regularizer
from drobench.objective.sampling import Index, Rows, Shard, index_length, sample_indices


@dataclass
class Counters:
    """What has been asked of an oracle so far, on this process."""

    sample_calls: int = 0
    inner_values: int = 0
    inner_jacobians: int = 0
    loss_gradients: int = 0
    constraint_checks: int = 0
    projections: int = 0

    @property
    def oracle_calls(self) -> int:
        """Sample calls and constraint checks together."""
        return self.sample_calls + self.constraint_checks

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class Oracle(ABC):
    """Counters, a seeded generator and draws from the two index sets.

    All processes of a run hold the same generator, so they agree on every draw without talking and each evaluates its
    own part: the union over processes is what a single process would have drawn.
    """

    dimension: int
    samples: int
    constraints: int
    constraint_rows: int = 0
    """Rows over which constraints are sums that can be pooled; 0: they are not, or cannot."""
    dtype: torch.dtype
    device: torch.device

    def __init__(self, form: Any, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008  # immutable
        self._form = form
        self.generator = np.random.default_rng(seed)
        self.counters = Counters()
        self.shard = shard
        self.dtype, self.device = start.dtype, start.device

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
        sample_part, sample_share, sample_covered = self._draw_set(self.samples, samples, replacement)
        constraint_part, constraint_share, constraint_covered = self._draw_set(
            self.constraints, constraints, replacement
        )
        covered = constraint_covered if self.constraints else sample_covered
        return Rows(sample_part, constraint_part, sample_share, constraint_share, covered)

    def _draw_set(self, population: int, size: int | None, replacement: bool) -> tuple[Index | None, float, float]:
        if population == 0:
            return None, 1.0, 0.0
        if size is not None and size < 1:
            raise DrobenchError(f"A draw must have at least one row; a solver asked for {size}.")
        if size is None or size >= population:
            first, last = self.shard.bounds(population)
            whole = slice(None) if self.shard.parts == 1 else slice(first, last)
            return whole, (last - first) / population, 1.0
        indices = sample_indices(self.generator, population, size, replacement)
        # A draw with repetitions is only known to cover one row.
        covered = (1 if replacement else size) / population
        if self.shard.parts == 1:
            return indices.to(self.device), 1.0, covered
        first, last = self.shard.bounds(size)
        return indices[first:last].to(self.device), (last - first) / size, covered

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
        parts, covered = draw.samples(self.samples, samples)
        drawn, share, data = None, 1.0, None
        if self.constraints:
            drawn, share, covered, data = draw.constraints(self.constraints, constraints, self.constraint_rows)
        found = [Rows(index, None, weight, 0.0, covered) for index, weight in parts] or [Rows(None, covered=covered)]
        found[0] = found[0]._replace(constraints=drawn, constraint_share=share, data=data)
        return tuple(found)

    def _count_samples(self, rows: Rows, points: int) -> int:
        calls = 0 if rows.samples is None else index_length(rows.samples, self.samples) * points
        self.counters.sample_calls += calls
        return calls

    def _count_constraints(self, rows: Rows, points: int) -> int:
        if rows.constraints is None or (rows.data is not None and self.shard.rank > 0):
            # Each check of a constraint on the rows of all processes is one check.
            return 0
        checks = index_length(rows.constraints, self.constraints) * points
        self.counters.constraint_checks += checks
        return checks

    def count_projection(self) -> None:
        """Count one projection: all processes project the same point, which for the run as a whole is one."""
        if self.shard.rank == 0:
            self.counters.projections += 1

    def materialise(self) -> Any:
        """Return the whole problem, for reference solvers.

        In every oracle alike, each look counts one call for every sample, whatever is done with the problem afterwards;
        constraints are not counted.
        """
        self.counters.sample_calls += self.samples
        return self._form

    def state_dict(self) -> dict[str, Any]:
        """Return counters and generator, enough to go on exactly where this oracle stands."""
        generator = self.generator.bit_generator.state
        words = {key: str(value) for key, value in generator["state"].items()}
        return {"counters": self.counters.as_dict(), "generator": {**generator, "state": words}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.counters = Counters(**state["counters"])
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
