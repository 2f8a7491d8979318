"""Which oracle belongs to which form."""

from typing import Any

from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, FiniteSum, GroupedMinMax, MinMax, NativeForm
from drobench.objective.oracle import Oracle
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.oracles.finite_sum import FiniteSumOracle
from drobench.objective.oracles.min_max import GroupedMinMaxOracle, MinMaxOracle
from drobench.objective.oracles.reference import ReferenceOracle
from drobench.objective.sampling import Shard


def build_oracle(form: Any, seed: int, start: Tensor, shard: Shard = Shard()) -> Oracle:  # noqa: B008
    """Return the oracle for `form`: of the kind that its class asks for, with nothing counted yet."""
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
    NativeForm: ReferenceOracle,
}
