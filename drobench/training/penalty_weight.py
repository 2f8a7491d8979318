"""The weight of a penalty that follows the violation, from one stage of a continuation to the next."""

from torch import Tensor

from drobench.objective.oracles.composite import CompositeOracle

_FACTOR = 2.0
_FARTHEST = 16.0


def adapted_weight(oracle: CompositeOracle, point: Tensor, first: float | None) -> float | None:
    """Return the weight for the next stage, after `point` was found with that of `oracle`.

    A constraint that is violated says that the weight is too small, and constraints that all hold say that a smaller
    one might do. The weight stays within a factor of 16 of the `first`. Every process finds the same.
    """
    weight = oracle.penalty_weight
    if weight is None or first is None:
        return None
    largest = oracle.largest_surrogate(point)
    if largest > 0.0:
        return min(_FACTOR * weight, _FARTHEST * first)
    return max(weight / _FACTOR, first / _FARTHEST) if largest < 0.0 else weight
