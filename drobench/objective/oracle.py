"""Counted oracles: the only way for a solver to touch data.

One class per form. Counting happens here, around the mathematics, and never in a solver. One *call* is one row at one
point, whatever is computed there; calls on samples and checks of constraints are counted apart.
"""

import math
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.clients import Clients
from drobench.objective.composite import Change, Composite, Estimate, Rows, RowTerms, Total
from drobench.objective.forms import Constrained, FiniteSum, GroupedMinMax, MinMax, Scored
from drobench.objective.sampling import Index, index_length, sample_indices, sample_within


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
        """Return the counters by name."""
        return asdict(self)


class Shard(NamedTuple):
    """Which of `parts` equal parts of every draw this process evaluates."""

    rank: int = 0
    parts: int = 1

    def bounds(self, size: int) -> tuple[int, int]:
        """Return the first and one past the last position of this part among `size`."""
        return self.rank * size // self.parts, (self.rank + 1) * size // self.parts


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

    def __init__(self, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008  # an immutable tuple
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
        parts, covered = self._draw_samples(clients, samples, replacement, first, last)
        drawn, share, data = None, 1.0, None
        if self.constraints:
            drawn, share, covered, data = self._draw_constraints(clients, constraints, replacement, first, last)
        found = [Rows(index, None, weight, 0.0, covered) for index, weight in parts] or [Rows(None, covered=covered)]
        found[0] = found[0]._replace(constraints=drawn, constraint_share=share, data=data)
        return tuple(found)

    def _draw_samples(
        self, clients: Clients, size: int | None, replacement: bool, first: int, last: int
    ) -> tuple[list[tuple[Index, float]], float]:
        """Return the rows of the clients from `first` to `last` with their shares, and how much all clients covered."""
        rows = self.samples
        if rows == 0:
            return [], 0.0
        owned = clients.owned(rows)
        if size is not None and not clients.local:
            size = size * clients.count if clients.whole_batch else size
            if size < rows:
                return self._draw_part(clients, rows, size, replacement, first, last)
        elif size is not None:
            sizes = clients.batches(size, rows)
            if any(owned[client + 1] - owned[client] > sizes[client] for client in range(clients.count)):
                return self._draw_locally(owned, sizes, replacement, first, last)
        return [(slice(owned[first], owned[last]), (owned[last] - owned[first]) / rows)], 1.0

    def _draw_part(
        self, clients: Clients, population: int, size: int, replacement: bool, first: int, last: int
    ) -> tuple[list[tuple[Index, float]], float]:
        """Draw from the stream that all share, and take the part of the clients from `first` to `last`."""
        indices = sample_indices(self.generator, population, size, replacement)
        cuts = clients.bounds(size)
        part = indices[cuts[first] : cuts[last]].to(self.device)
        return [(part, part.numel() / size)], (1 if replacement else size) / population

    def _draw_locally(
        self, owned: Sequence[int], sizes: Sequence[int], replacement: bool, first: int, last: int
    ) -> tuple[list[tuple[Index, float]], float]:
        """Draw from each client's own rows, with a stream that depends on the draw and the client alone."""
        word = int(self.generator.integers(2**63))
        together: dict[float, tuple[list[Tensor], int]] = {}
        for client in range(first, last):
            mine, size = owned[client + 1] - owned[client], sizes[client]
            stream = np.random.Generator(np.random.Philox(key=np.array([word, client], dtype=np.uint64)))
            indices = owned[client] + sample_indices(stream, mine, size, replacement and size < mine)
            # Rows that count alike are evaluated together.
            drawn, rows = together.get(mine / size, ([], 0))
            together[mine / size] = ([*drawn, indices], rows + mine)
        total = owned[-1]
        parts = [(torch.cat(drawn).to(self.device), rows / total) for drawn, rows in together.values()]
        covered = min(
            (1 if replacement else size) / (owned[client + 1] - owned[client]) for client, size in enumerate(sizes)
        )
        return [*parts], covered

    def _draw_constraints(
        self, clients: Clients, size: int | None, replacement: bool, first: int, last: int
    ) -> tuple[Index, float, float, slice | None]:
        """Return constraints, their share, how much was covered, and the rows to evaluate them on."""
        count = self.constraints
        whole = size is None or size >= count
        if clients.by_rows:
            owned = clients.owned(self.constraint_rows)
            data = slice(owned[first], owned[last])
            share = (owned[last] - owned[first]) / self.constraint_rows
            if whole:
                return slice(None), share, 1.0, data
            assert size is not None
            indices = sample_indices(self.generator, count, size, replacement)
            return indices.to(self.device), share, (1 if replacement else size) / count, data
        if whole:
            cuts = clients.bounds(count)
            return slice(cuts[first], cuts[last]), (cuts[last] - cuts[first]) / count, 1.0, None
        assert size is not None
        (part,), covered = self._draw_part(clients, count, size, replacement, first, last)
        return *part, covered, None

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

    def state_dict(self) -> dict[str, Any]:
        """Return counters and generator, enough to go on exactly where this oracle stands."""
        generator = self.generator.bit_generator.state
        words = {key: str(value) for key, value in generator["state"].items()}
        return {"counters": self.counters.as_dict(), "generator": {**generator, "state": words}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.counters = Counters(**state["counters"])
        words = {key: int(value) for key, value in state["generator"]["state"].items()}
        self.generator.bit_generator.state = {**state["generator"], "state": words}


class CompositeOracle(Oracle):
    """Counted access to `r(x) + mean h_i(x) + f(mean g_i(x))`."""

    def __init__(self, form: Composite, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(seed, start, shard)
        self._form = form
        self.dimension = form.dimension
        self.samples = form.samples
        self.constraints = form.constraints
        self.outputs = form.outputs
        self.has_losses = form.has_losses
        self.uses_shift = form.uses_shift
        self.rescalable = form.rescalable
        self.largest_step = form.largest_step
        self.strong_convexity = form.regularizer.strong_convexity
        self.constraint_rows = form.constraint_rows

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None = None, total: Total | None = None) -> Estimate:
        """Return value, Jacobian and gradient means over `rows` at `points` `(k, d)`, in one pass.

        `shift=None` chooses the shift. With a given shift the result may come back at a higher one, where the given
        one would overflow: see `rescale`. For `Rows.data`, `total` sums over all processes.
        """
        self._count(rows, points.shape[0])
        if rows.data is not None and total is not None:
            return self._form.pooled_estimate(points, rows, shift, total)
        return self._form.estimate(points, rows, shift)

    def change(self, points: Tensor, rows: Rows, shift: Tensor, total: Total | None = None) -> Change:
        """Return the means over `rows` at the first of two points less those at the second; two calls a row."""
        self._count(rows, 2)
        if rows.data is not None and total is not None:
            return self._form.pooled_change(points, rows, shift, total)
        return self._form.change(points, rows, shift)

    def row_terms(self, point: Tensor, rows: Rows, shift: Tensor | None = None) -> RowTerms:
        """Return what each of `rows` contributes at `point`; one call a row. The shift is as in `estimate`."""
        found = self._form.row_terms(point, rows, shift)
        self._count(rows, 1)
        return found

    def _count(self, rows: Rows, points: int) -> None:
        calls = self._count_samples(rows, points)
        checks = self._count_constraints(rows, points)
        # Every process evaluates the cheap constraints, of which the run as a whole needs one evaluation.
        leads = self.shard.rank == 0 and rows.constraints is not None
        cheap = self._form.cheap_constraints * points if leads else 0
        self.counters.constraint_checks += cheap
        checks += cheap
        if self.outputs:
            inner_calls = checks if self.constraints else calls
            self.counters.inner_values += inner_calls
            self.counters.inner_jacobians += inner_calls
        if self._form.has_losses:
            self.counters.loss_gradients += calls

    def outer_gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        """Return `f'(y)`."""
        return self._form.outer.gradient(inner_value, shift)

    def guard(self, inner_value: Tensor, rows: Rows, shift: Tensor, floor: Tensor | None = None) -> Tensor:
        """Return the nearest inner value inside the domain of `f`, for methods that clip; see `admits`."""
        if rows.covered == 1.0:
            return inner_value if floor is None else torch.maximum(inner_value, 0.5 * floor)
        smallest = self._form.outer.smallest(shift)
        if smallest is not None:
            inner_value = inner_value.clamp(min=smallest)
        return inner_value if floor is None else torch.maximum(inner_value, floor)

    def admits(self, inner_value: Tensor, rows: Rows, shift: Tensor, floors: Sequence[float]) -> bool:
        """Tell whether an inner value is finite and not below what is known of it.

        `floors` are the rows' own lower bounds. Over the full set they are the exact mean, of which a recursion may
        fall short by its rounding, so that only half of it is insisted on.
        """
        values = inner_value.tolist()
        if rows.covered == 1.0:
            smallest, share = None, 0.5
        else:
            smallest, share = self._form.outer.smallest(shift), 1.0
        lowest = -math.inf if smallest is None else smallest
        return all(max(lowest, share * floor) <= value < math.inf for value, floor in zip(values, floors, strict=True))

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """Express an inner value or Jacobian held at shift `old` at shift `new`."""
        return self._form.rescale(inner, old, new) if self.uses_shift and new is not old else inner

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """Express inner value and Jacobian, freshly measured at one point at shift `old`, at shift `new`."""
        return (value, jacobian) if new is old else self._form.at_shift(value, jacobian, old, new)

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        """Return the shift that suits a point whose inner value at `shift` is `value`."""
        return self._form.best_shift(value, shift)

    def value(self, point: Tensor, inner_value: Tensor, loss_value: Tensor, shift: Tensor) -> Tensor:
        """Return `Psi(point)` from means already paid for."""
        return self._form.value_at(point, inner_value, loss_value, shift)

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        """Return the proximal map of `r`; where that is a projection it is counted as one."""
        if self._form.regularizer.is_indicator:
            self.count_projection()
        return self._form.regularizer.prox(point, step_size)

    def materialise(self) -> Composite:
        """Return the whole problem, for reference solvers that run off the clock."""
        return self._form


class FiniteSumOracle(Oracle):
    """Counted access to `r(x) + mean f_i(x)`."""

    def __init__(self, form: FiniteSum, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(seed, start, shard)
        self._form = form
        self.dimension = form.dimension
        self.samples = form.losses.samples
        self.constraints = 0

    def estimate(self, points: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return mean losses `(k,)` and mean gradients `(k, d)` over `rows`."""
        assert rows.samples is not None
        self.counters.loss_gradients += self._count_samples(rows, points.shape[0])
        return self._form.losses.mean(points, rows.samples)

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        """Return the proximal map of `r`; where that is a projection it is counted as one."""
        if self._form.regularizer.is_indicator:
            self.count_projection()
        return self._form.regularizer.prox(point, step_size)

    def regularizer_gradient(self, point: Tensor) -> Tensor:
        """Return a (sub)gradient of `r`, for methods without proximal step."""
        return self._form.regularizer.gradient(point)

    def materialise(self) -> FiniteSum:
        """Return the whole problem, for reference solvers; a look at it counts as one pass."""
        self.counters.sample_calls += self.samples
        return self._form


class ConstrainedOracle(Oracle):
    """Counted access to an objective and many constraints."""

    def __init__(self, form: Constrained, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(seed, start, shard)
        self._form = form
        self.dimension = form.objective.dimension
        self.samples = form.objective.losses.samples
        self.constraints = form.constraints.count
        self.features = form.constraints.features
        self.cheap_constraints = form.constraints.cheap_count
        self.penalty = form.penalty
        self.projectable = form.constraints.projectable

    def objective(self, points: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return mean losses `(k,)` and mean gradients `(k, d)` over the sample rows."""
        assert rows.samples is not None
        self.counters.loss_gradients += self._count_samples(rows, points.shape[0])
        return self._form.objective.losses.mean(points, rows.samples)

    def surrogates(self, points: Tensor, rows: Rows) -> tuple[Tensor, Any]:
        """Return surrogate violations `(k, rows)` of the constraint rows, and their pullback."""
        assert rows.constraints is not None
        checks = self._count_constraints(rows, points.shape[0])
        self.counters.inner_values += checks
        self.counters.inner_jacobians += checks
        return self._form.constraints.surrogates(points, rows.constraints)

    def rates(self, points: Tensor, rows: Rows) -> Tensor:
        """Return exact violations `(k, rows)` of the constraint rows."""
        assert rows.constraints is not None
        self.counters.inner_values += self._count_constraints(rows, points.shape[0])
        return self._form.constraints.rates(points, rows.constraints)

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        """Return the proximal map of the objective's regularizer; where that is a projection it is counted as one."""
        if self._form.objective.regularizer.is_indicator:
            self.count_projection()
        return self._form.objective.regularizer.prox(point, step_size)

    def project(self, point: Tensor) -> Tensor:
        """Return the nearest point that satisfies all constraints, where these know how to find it; counted."""
        self.count_projection()
        return self._form.constraints.project(point)

    def regularizer_gradient(self, point: Tensor) -> Tensor:
        """Return a (sub)gradient of the objective's regularizer, for methods without proximal step."""
        return self._form.objective.regularizer.gradient(point)

    def materialise(self) -> Constrained:
        """Return the whole problem, for reference solvers that run off the clock."""
        return self._form


class MinMaxOracle(Oracle):
    """Counted access to a saddle problem through its operator and its projection."""

    def __init__(self, form: MinMax, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(seed, start, shard)
        self._form = form
        self.dimension = form.dimension
        self.samples = form.samples
        self.constraints = 0

    def start(self, point: Tensor) -> Tensor:
        """Return the initial joint variable for initial parameters `point`."""
        return self._form.start(point)

    def operator(self, joint: Tensor, rows: Rows) -> Tensor:
        """Return the operator's estimate from the rows."""
        self.counters.loss_gradients += self._count_samples(rows, 1)
        return self._form.operator(joint, rows)

    def project(self, joint: Tensor) -> Tensor:
        """Return the nearest feasible joint variable; counted."""
        self.count_projection()
        return self._form.project(joint)

    def scales(self, joint: Tensor) -> Tensor:
        """Return the usual size of each variable, in which steps on it are measured."""
        return self._form.scales(joint)

    def mirror_step(self, joint: Tensor, operator: Tensor, step_size: float, adversary_step: float) -> Tensor:
        """Return the joint variable after a step in the geometry of each player; counted as one projection."""
        self.count_projection()
        return self._form.mirror_step(joint, operator, step_size, adversary_step)

    def materialise(self) -> MinMax:
        """Return the whole problem, for reference solvers that run off the clock."""
        return self._form


class GroupedMinMaxOracle(MinMaxOracle):
    """Counted access to a saddle over groups, which can be drawn from one by one."""

    _form: GroupedMinMax

    def __init__(self, form: GroupedMinMax, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(form, seed, start, shard)
        self.groups = form.groups
        self.group_sizes = form.group_sizes
        # The rows of group g are those at the positions from ends[g] - sizes[g] to ends[g].
        self._by_group = form.row_groups.argsort(stable=True).cpu()
        self._sizes = form.group_sizes.cpu().numpy()
        self._ends = self._sizes.cumsum()

    def draw_groups(self, counts: Sequence[int] | None = None, *, replacement: bool = False) -> Rows:
        """Draw so many rows of each group; `None` is the exact full set.

        Without replacement no group gives more than it has. What is estimated from the draw are means within groups,
        so that it need not resemble the whole.
        """
        wanted = self._sizes if counts is None else np.asarray(counts)
        if counts is None or (not replacement and bool((wanted >= self._sizes).all())):
            return self.draw()._replace(by_group=self.group_sizes)
        drawn = wanted if replacement else np.minimum(wanted, self._sizes)
        total = int(drawn.sum())
        if total == 0:
            raise DrobenchError("A draw must have at least one row; a solver asked for none of any group.")
        places = sample_within(self.generator, self._sizes, drawn, replacement)
        indices = self._by_group[torch.from_numpy(places + np.repeat(self._ends - self._sizes, drawn))]
        first, last = self.shard.bounds(total)
        by_group = torch.from_numpy(drawn).to(self.device)
        return Rows(indices[first:last].to(self.device), sample_share=(last - first) / total, by_group=by_group)

    def group_losses(self, joint: Tensor, rows: Rows) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return estimates of the group means, and the gradient by the parameters as a function of weights."""
        self.counters.loss_gradients += self._count_samples(rows, 1)
        return self._form.group_losses(joint, rows)

    def penalty_slope(self, joint: Tensor) -> Tensor:
        """Return the derivative, by the weights, of what the adversary pays for them."""
        return self._form.penalty_slope(joint)

    def raise_weights(self, joint: Tensor, losses: Tensor, step: float) -> Tensor:
        """Return the joint variable after a step of the adversary alone; counted as one projection."""
        self.count_projection()
        return self._form.raise_weights(joint, losses, step)


class ReferenceOracle(Oracle):
    """The whole original problem, for reference solvers; a look at it counts as one pass."""

    def __init__(self, form: Scored, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(seed, start, shard)
        self._form = form
        self.dimension = form.dimension
        self.samples = form.samples
        self.constraints = 0

    def materialise(self) -> Scored:
        """Return the problem."""
        self.counters.sample_calls += self.samples
        return self._form


def build_oracle(form: Any, seed: int, start: Tensor, shard: Shard = Shard()) -> Oracle:  # noqa: B008
    """Return the oracle of `form`'s kind."""
    for kind, oracle in _ORACLES.items():
        if isinstance(form, kind):
            built: Oracle = oracle(form, seed, start, shard)
            return built
    raise DrobenchError(f"No oracle for a {type(form).__name__}; forms are {', '.join(k.__name__ for k in _ORACLES)}.")


_ORACLES: dict[type, Any] = {
    Composite: CompositeOracle,
    FiniteSum: FiniteSumOracle,
    Constrained: ConstrainedOracle,
    # Before the form that it is a special case of.
    GroupedMinMax: GroupedMinMaxOracle,
    MinMax: MinMaxOracle,
    Scored: ReferenceOracle,
}
