"""The weight of a penalty that follows the violation, from one stage of a continuation to the next."""

from torch import Tensor

from drobench.objective.oracles.composite import CompositeOracle

_FACTOR = 2.0
_FARTHEST = 16.0


def adapted_weight(oracle: CompositeOracle, point: Tensor, first: float | None) -> float | None:
    """Return the weight for the next stage, after `point` was found with that of `oracle`.

    A smoothed penalty leaves a violation, or a distance from it, of about `smoothing_error / weight`. A larger one says
    that the weight is too small, and constraints that all hold by more say that it is larger than need be. The weight
    stays within a factor of 16 of the `first`. Every process finds the same.
    """
    weight = oracle.penalty_weight
    if weight is None or first is None:
        return None
    largest, explained = oracle.largest_surrogate(point), oracle.smoothing_error / weight
    if largest > explained:
        return min(_FACTOR * weight, _FARTHEST * first)
    return max(weight / _FACTOR, first / _FARTHEST) if largest < -explained else weight
