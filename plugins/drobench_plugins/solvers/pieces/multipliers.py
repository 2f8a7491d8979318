"""Models of Lagrange multipliers: how a vector of parameters becomes one multiplier for each constraint.

A table holds the multipliers themselves; a network computes each from the features of its constraint, so that many
constraints share what is learnt of a few.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import linear

from drobench.solver import ConstrainedOracle, Index

Pullback = Callable[[Tensor], Tensor]
"""Maps cotangents `(rows,)` to `sum_k cotangent_k` times the gradient of multiplier `k` by the parameters."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}


@dataclass(frozen=True)
class Multipliers:
    """What a state holds of its multiplier model."""

    parameters: Tensor
    # From the start on.
    centre: Tensor | None = None
    """Mean of the constraints' features, where they are normalised."""
    width: Tensor | None = None
    """Their standard deviation, 1 where they are constant."""


class MultiplierModel(ABC):
    """One multiplier for each constraint, from a vector of parameters."""

    @abstractmethod
    def start(self, oracle: ConstrainedOracle) -> Multipliers:
        """Return the model at its start."""

    @abstractmethod
    def evaluate(self, state: Multipliers, oracle: ConstrainedOracle, index: Index) -> tuple[Tensor, Pullback]:
        """Return the multipliers `(rows,)` of the constraints in `index`, and their pullback."""

    def project(self, parameters: Tensor) -> Tensor:
        """Return the nearest parameters that the model allows."""
        return parameters


class MultiplierTable(MultiplierModel):
    """Multipliers held one by one: constraint `k` has number `k mod size` of `size`.

    Signed, a multiplier is the absolute value of its parameter; projected, the parameter itself, kept from going below
    zero.
    """

    def __init__(self, size: int | None, initial: float, *, projected: bool) -> None:
        self.size = size
        self.initial = initial
        self.projected = projected

    def start(self, oracle: ConstrainedOracle) -> Multipliers:
        size = oracle.constraints if self.size is None else self.size
        return Multipliers(torch.full((size,), self.initial, dtype=oracle.dtype, device=oracle.device))

    def evaluate(self, state: Multipliers, oracle: ConstrainedOracle, index: Index) -> tuple[Tensor, Pullback]:
        parameters = state.parameters
        numbers = _numbers(oracle, index) % parameters.numel()
        chosen = parameters[numbers]

        def pullback(cotangents: Tensor) -> Tensor:
            slopes = cotangents if self.projected else cotangents * chosen.sign()
            return torch.zeros_like(parameters).index_add_(0, numbers, slopes)

        return (chosen if self.projected else chosen.abs()), pullback

    def project(self, parameters: Tensor) -> Tensor:
        return parameters.clamp(min=0.0) if self.projected else parameters


class MultiplierNetwork(MultiplierModel):
    """Absolute outputs of a small network that sees the features of a constraint.

    Constraint `k` reads output `k mod outputs`, for problems with several constraints on the same features. Weights
    start uniform in `+-sqrt(6 / (inputs + outputs))` of their layer, biases at 0, those of the last layer at 1.
    """

    def __init__(self, hidden: Sequence[int], activation: str, outputs: int, *, normalise: bool) -> None:
        self.hidden = tuple(hidden)
        self.activation = ACTIVATIONS[activation]
        self.outputs = outputs
        self.normalise = normalise

    def start(self, oracle: ConstrainedOracle) -> Multipliers:
        parts: list[Tensor] = []
        for inputs, outputs in self._layers(oracle):
            bound = math.sqrt(6.0 / (inputs + outputs))
            weights = oracle.generator.uniform(-bound, bound, inputs * outputs)
            parts += [torch.from_numpy(weights), torch.zeros(outputs, dtype=torch.float64)]
        parts[-1] += 1.0
        parameters = torch.cat(parts).to(oracle.device, oracle.dtype)
        if not self.normalise:
            return Multipliers(parameters)
        features = oracle.features.to(parameters)
        centre = features.mean(dim=0)
        width = (features - centre).square().mean(dim=0).sqrt()
        # Rounding leaves a constant column a tiny deviation, by which nothing may be divided.
        constant = width <= torch.finfo(width.dtype).eps ** 0.5 * features.abs().amax(dim=0)
        return Multipliers(parameters, centre, torch.where(constant, 1.0, width))

    def evaluate(self, state: Multipliers, oracle: ConstrainedOracle, index: Index) -> tuple[Tensor, Pullback]:
        features = oracle.features[index].to(state.parameters)
        if state.centre is not None and state.width is not None:
            features = (features - state.centre) / state.width
        columns = _numbers(oracle, index)[:, None] % self.outputs
        leaf = state.parameters.detach().clone().requires_grad_(True)
        # Solvers step without gradients; this derivative is of the small network alone.
        with torch.enable_grad():
            values = self._forward(leaf, features, self._layers(oracle)).gather(1, columns)[:, 0].abs()

        def pullback(cotangents: Tensor) -> Tensor:
            return torch.autograd.grad(values, leaf, cotangents, retain_graph=True)[0]

        return values.detach(), pullback

    def _layers(self, oracle: ConstrainedOracle) -> list[tuple[int, int]]:
        """Return inputs and outputs of each layer."""
        sizes = [oracle.features.shape[1], *self.hidden, self.outputs]
        return list(pairwise(sizes))

    def _forward(self, parameters: Tensor, signal: Tensor, layers: list[tuple[int, int]]) -> Tensor:
        used = 0
        for number, (inputs, outputs) in enumerate(layers):
            weights, bias, _ = parameters[used:].split_with_sizes(
                [inputs * outputs, outputs, parameters.numel() - used - (inputs + 1) * outputs]
            )
            used += (inputs + 1) * outputs
            signal = linear(self.activation(signal) if number else signal, weights.view(outputs, inputs), bias)
        return signal


def _numbers(oracle: ConstrainedOracle, index: Index) -> Tensor:
    """Return the numbers of the constraints in `index`."""
    if isinstance(index, Tensor):
        return index
    return torch.arange(*index.indices(oracle.constraints), device=oracle.device)
