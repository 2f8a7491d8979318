"""Access to the whole original problem, for reference solvers."""

from torch import Tensor

from drobench.objective.forms import NativeForm
from drobench.objective.oracle import Oracle
from drobench.objective.sampling import Shard


class ReferenceOracle(Oracle):
    """The whole original problem, which `materialise` returns."""

    def __init__(self, form: NativeForm, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(form, seed, start, shard)
        self.dimension = form.dimension
        self.samples = form.samples
        self.constraints = 0
