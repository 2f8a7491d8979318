"""Counted access to saddle problems."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.forms import GroupedMinMax, MinMax
from drobench.objective.oracle import Oracle
from drobench.objective.sampling import Rows, Shard, sample_within


class MinMaxOracle(Oracle):
    """Counted access to a saddle problem through its operator and its projection."""

    _form: MinMax

    def __init__(self, form: MinMax, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(form, seed, start, shard)
        self.dimension = form.dimension
        self.samples = form.samples
        self.constraints = 0

    def start(self, point: Tensor) -> Tensor:
        """Return the initial joint variable for initial parameters `point`."""
        return self._form.start(point)

    def operator(self, joint: Tensor, rows: Rows) -> Tensor:
        """Return the operator's estimate from the rows."""
        self._count_samples(rows, 1, "loss_gradients")
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
        return Rows(
            indices[first:last].to(self.device),
            sample_share=(last - first) / total,
            by_group=torch.from_numpy(drawn).to(self.device),
            drawn_samples=total,
        )

    def group_losses(self, joint: Tensor, rows: Rows) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return estimates of the group means, and the gradient by the parameters as a function of weights."""
        self._count_samples(rows, 1, "loss_gradients")
        return self._form.group_losses(joint, rows)

    def penalty_slope(self, joint: Tensor) -> Tensor:
        """Return the derivative, by the weights, of what the adversary pays for them."""
        return self._form.penalty_slope(joint)

    def raise_weights(self, joint: Tensor, losses: Tensor, step: float) -> Tensor:
        """Return the joint variable after a step of the adversary alone; counted as one projection."""
        self.count_projection()
        return self._form.raise_weights(joint, losses, step)
