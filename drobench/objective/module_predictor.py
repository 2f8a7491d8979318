"""Any `torch.nn.Module` as a predictor: its parameters come from one flat vector, and nothing in it ever changes.

Methods of variance reduction look at the same rows at two points and subtract, exchange parameters between processes
and score stored solutions later. All of that needs a function of parameters and one row: no state that a call changes,
no chance, no row that depends on its neighbours. A module is tried on a few rows before it is used.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from drobench.errors import DrobenchError
from drobench.objective.losses import Losses, NetworkLosses, ScoreLoss
from drobench.objective.models import Model, Predictor

_PROBED_ROWS = 3
_PROBE_SEED = 0
# What two ways to compute one row may differ by; they may call other kernels.
_SAME = 1e-6
_LARGEST_SEED = 2**62


class UnusableModel(DrobenchError):
    """A module cannot be used as a function of its parameters and one row."""


class ModulePredictor(Predictor):
    """The scores of a module, as a function of its trainable parameters in the order of `named_parameters`.

    Buffers, and parameters that ask for no gradient, are constants.
    """

    def __init__(self, model: Model, shape: tuple[int, ...], outputs: int, module: nn.Module) -> None:
        self.model = model
        self.shape = shape
        self.outputs = outputs
        trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
        self.shapes = {name: tuple(value.shape) for name, value in trained.items()}
        self.sizes = [math.prod(size) for size in self.shapes.values()]
        self.dimension = sum(self.sizes)
        if self.dimension == 0:
            raise UnusableModel(f"Model {model.name!r} has no parameter that asks for a gradient: nothing to learn.")
        self._try(module)
        everything: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
        first_name = {id(value): name for name, value in trained.items()}
        # Layers may share a parameter, which then has several names, and one piece of the flat vector.
        self.names = {name: first_name[id(value)] for name, value in everything.items() if id(value) in first_name}
        everything |= dict(module.named_buffers(remove_duplicate=False))
        self._constants = {name: value.detach().clone() for name, value in everything.items() if name not in self.names}
        self._placed: dict[tuple[torch.device, torch.dtype], dict[str, Tensor]] = {}
        # On the meta device the module is a plan without memory; the numbers always come from the flat vector.
        self.network = module.to("meta")

    def scores(self, point: Tensor, features: Tensor) -> Tensor:
        pieces = torch.split(point, self.sizes)
        parameters = {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}
        everything = {name: parameters[first] for name, first in self.names.items()} | self._constants_like(point)
        rows = features.reshape(-1, *self.shape)
        output: Tensor = torch.func.functional_call(self.network, everything, (rows,))
        return output.reshape(-1) if self.outputs == 1 else output

    def start(self, generator: torch.Generator) -> Tensor:
        """Draw the parameters from the generator: by the model's own rule, or as its module draws them when made."""
        module = made_module(self.model, self.shape, self.outputs)
        if not self.model.fill(module, generator):
            seed = int(torch.randint(_LARGEST_SEED, (1,), generator=generator))
            module = made_module(self.model, self.shape, self.outputs, seed)
        trained = [value for value in module.parameters() if value.requires_grad]
        start = torch.cat([value.detach().reshape(-1) for value in trained]).to(torch.float64)
        if not bool(start.isfinite().all()):
            bad = int((~start.isfinite()).sum())
            raise UnusableModel(
                f"Model {self.model.name!r}: initial parameters must be finite; found {bad} of {start.numel()} that "
                "are NaN or infinite. Correct how its module, or the `start` of its entry, draws them."
            )
        return start

    @torch.no_grad()
    def module(self, point: Tensor) -> nn.Module:
        network = made_module(self.model, self.shape, self.outputs)
        trained = [value for value in network.parameters() if value.requires_grad]
        for parameter, piece in zip(trained, torch.split(point.to(torch.float64), self.sizes), strict=True):
            parameter.copy_(piece.view(parameter.shape))
        return nn.Sequential(nn.Unflatten(1, self.shape), network) if len(self.shape) > 1 else network

    def losses(self, features: Tensor, targets: Tensor, loss: ScoreLoss) -> Losses:
        return NetworkLosses(self.scores, self.dimension, features, targets, loss)

    def _constants_like(self, point: Tensor) -> dict[str, Tensor]:
        """Return the constants where the parameters are, and in their precision."""
        place = point.device, point.dtype
        if self._constants and place not in self._placed:
            self._placed[place] = {
                name: value.to(point.device, point.dtype if value.is_floating_point() else value.dtype)
                for name, value in self._constants.items()
            }
        return self._placed.get(place, {})

    @torch.no_grad()
    def _try(self, module: nn.Module) -> None:
        """Refuse a module that is no function of parameters and one row."""
        generator = torch.Generator().manual_seed(_PROBE_SEED)
        rows = torch.randn(_PROBED_ROWS, *self.shape, generator=generator, dtype=torch.float64)
        before = {name: value.clone() for name, value in module.state_dict().items()}
        with _seeded(_PROBE_SEED):
            first, second = self._called(module, rows), self._called(module, rows)
        changed = [name for name, value in module.state_dict().items() if not _equal(value, before[name])]
        if changed:
            self._refuse(
                f"a call changes {changed[0]!r}. A step compares two points on the same rows, which needs a function: "
                "use layers that keep no count of what they saw, such as GroupNorm or LayerNorm instead of BatchNorm"
            )
        if not torch.allclose(first, second, rtol=_SAME, atol=_SAME, equal_nan=True):
            self._refuse(
                "two calls with the same rows differ. A step compares two points on the same rows, which chance would "
                "spoil: leave dropout and other noise out, or hand the module over in eval mode"
            )
        alone = torch.cat([self._called(module, row[None]) for row in rows])
        if not torch.allclose(first, alone, rtol=_SAME, atol=_SAME, equal_nan=True):
            self._refuse(
                "the scores of a row depend on the rows that stand beside it. Draws of rows are small and of any "
                "composition: use GroupNorm or LayerNorm in the place of BatchNorm"
            )

    def _called(self, module: nn.Module, rows: Tensor) -> Tensor:
        try:
            output = module(rows)
        except Exception as error:  # what a module raises on rows it was not made for can be anything
            raise UnusableModel(
                f"Model {self.model.name!r} cannot be called on rows of shape {self.shape}: {type(error).__name__}: "
                f"{error}. Its factory is given this shape and {self.outputs} as the number of outputs."
            ) from error
        expected = (rows.shape[0], self.outputs)
        found = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        if found != expected and not (self.outputs == 1 and found == expected[:1]):
            self._refuse(f"its output for {rows.shape[0]} rows must have the shape {expected}; found {found}")
        scores: Tensor = output.reshape(expected)
        return scores

    def _refuse(self, reason: str) -> None:
        raise UnusableModel(f"Model {self.model.name!r} cannot be used: {reason}.")


def made_module(model: Model, shape: tuple[int, ...], outputs: int, seed: int = _PROBE_SEED) -> nn.Module:
    """Return the module of a model in double precision, made while torch's own generator is at the seed.

    Raises:
        UnusableModel: The factory fails, or returns something else.
    """
    try:
        with _seeded(seed):
            module = model.module(shape, outputs)
    except DrobenchError:
        raise
    except Exception as error:  # a stranger's factory may raise anything
        raise UnusableModel(
            f"Model {model.name!r} cannot be made for rows of shape {shape}: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(module, nn.Module):
        raise UnusableModel(
            f"Model {model.name!r}: its factory must return a torch.nn.Module; found a {type(module).__name__}."
        )
    return module.to(torch.float64)


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=True)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Let torch's own generator begin at a seed, and go on afterwards where it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
