"""What a problem is given to predict with: a model, of which modules are made for rows of a shape, and predictors."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor, nn

from drobench.errors import SettingError, require_one_of
from drobench.objective.losses import Losses
from drobench.objective.score_losses import ScoreLoss


class Model(ABC):
    """A kind of model with its settings; `drobench.objective.predictor.build_predictor` makes a predictor of it."""

    name: str
    shaped: bool = False
    """Whether it sees rows in their shape, such as images; else they come flat."""

    @abstractmethod
    def module(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Return a module from `(rows, *shape)` to `(rows, outputs)`."""

    def fill(self, module: nn.Module, generator: torch.Generator) -> bool:
        """Draw the initial parameters of a module in place; return whether that was done.

        Where it is not, those count that the module was made with.
        """
        return False

    @property
    def intercept(self) -> bool:
        """Whether a linear model has one."""
        return True


class Predictor(ABC):
    """A model without state: parameters come in as one flat vector."""

    dimension: int

    outputs: int
    """Number of scores per row: 1 for two classes, else the number of classes."""

    @abstractmethod
    def scores(self, point: Tensor, features: Tensor) -> Tensor:
        """Return the scores at parameters `point`: `(rows,)` for one output, else `(rows, outputs)`."""

    @abstractmethod
    def start(self, generator: torch.Generator) -> Tensor:
        """Return the initial parameters, in float64."""

    @abstractmethod
    def module(self, point: Tensor) -> nn.Module:
        """Return a module with these parameters, from features laid flat to scores, in double precision.

        With one output its answers may be `(rows,)` or `(rows, 1)`.
        """

    @abstractmethod
    def losses(self, features: Tensor, targets: Tensor, loss: ScoreLoss) -> Losses:
        """Return the losses of these samples as functions of the parameters."""


def affine(inputs: int, outputs: int, intercept: bool) -> nn.Linear:
    """Return one layer, which gets derivatives in closed form and starts at zero."""
    return nn.Linear(inputs, outputs, bias=intercept)


def perceptron(inputs: int, outputs: int, hidden: list[int], intercept: bool) -> nn.Sequential:
    """Return a fully connected network with rectified hidden layers."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise([inputs, *hidden, outputs]):
        layers += [nn.Linear(fan_in, fan_out, bias=intercept), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def fill_by_fan_in(module: nn.Module, generator: torch.Generator) -> None:
    """Draw each layer uniformly from `±1/sqrt(fan in)`, the rule of `torch.nn.Linear` and of convolutions."""
    bound = 0.0
    with torch.no_grad():
        for parameter in module.parameters():
            # A bias follows its weights and has no fan-in of its own.
            bound = 1.0 / math.sqrt(parameter[0].numel()) if parameter.dim() > 1 else bound
            drawn = torch.rand(parameter.numel(), generator=generator, dtype=torch.float64)
            parameter.copy_(((2.0 * drawn - 1.0) * bound).view(parameter.shape))


def check_widths(name: str, widths: list[int]) -> None:
    """Refuse an empty list of widths, and widths below one."""
    if not widths or min(widths) < 1:
        raise SettingError(f"{name} must list at least one positive width; found {list(widths)}.")


@dataclass
class ModelConfig(Model):
    """The two plain models, for whoever poses a problem without a catalogue of plugins."""

    name: str = "linear"
    intercept: bool = True
    hidden: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_one_of(self, "name", ("linear", "mlp"))
        if self.name == "mlp":
            check_widths("model.hidden", self.hidden)

    def module(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        inputs = math.prod(shape)
        if self.name == "linear":
            return affine(inputs, outputs, self.intercept)
        return perceptron(inputs, outputs, self.hidden, self.intercept)

    def fill(self, module: nn.Module, generator: torch.Generator) -> bool:
        fill_by_fan_in(module, generator)
        return True
