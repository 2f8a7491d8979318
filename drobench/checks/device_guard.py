"""Finding tensors on a device of the code's own choice, on a machine that has only one.

While the guard is on, tensors that are made without a word about their device, or with the name of one written into the
code, count as lying elsewhere. Made like another tensor, or with a `torch.device` that came from the oracle, they lie
where the data are, and `.to(...)` brings them there. Using both in one operation is what fails on a machine with two
devices, and is noted; as there, a tensor that holds a single number may lie anywhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

_MARK = "_lies_elsewhere"
# These bring a tensor somewhere, or take an index from anywhere.
_MOVES = ("to", "type_as", "copy_")
_INDEXING = ("__getitem__", "__setitem__")


class _Devices(TorchFunctionMode):
    def __init__(self, noticed: list[str]) -> None:
        super().__init__()
        self.noticed = noticed

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        given = tree_leaves((args, kwargs))
        tensors = [value for value in given if isinstance(value, Tensor)]
        here = any(isinstance(value, torch.device) for value in given)
        if name in _MOVES:
            # Where to is said by a device, or by another tensor; a precision alone moves nothing.
            said = here or (len(tensors) > 1 and not lies_elsewhere(tensors[1]))
            elsewhere = lies_elsewhere(tensors[0]) and not said
        else:
            strange = [lies_elsewhere(value) for value in tensors]
            elsewhere = all(strange) and not here
            mixed = [tensor for tensor, away in zip(tensors, strange, strict=True) if away and tensor.dim() > 0]
            if mixed and not all(strange) and name not in _INDEXING:
                self.noticed.append(f"`{name}` with a tensor of shape {tuple(mixed[0].shape)}")
        result = func(*args, **kwargs)
        for value in tree_leaves(result):
            # On a machine with one device `to` returns what it was given; nothing else changes the place of its input.
            if isinstance(value, Tensor) and (name in _MOVES or all(value is not tensor for tensor in tensors)):
                setattr(value, _MARK, elsewhere)
        return result


def lies_elsewhere(tensor: Tensor) -> bool:
    """Whether a tensor was made on a device of the code's own choice."""
    return bool(getattr(tensor, _MARK, False))


@contextmanager
def device_guard() -> Iterator[list[str]]:
    """Yield the list of what was noticed."""
    noticed: list[str] = []
    from_numpy = torch.from_numpy

    def marked(array: Any) -> Tensor:
        tensor = from_numpy(array)
        setattr(tensor, _MARK, True)
        return tensor

    # The only way to make a tensor that torch's own modes do not see.
    with mock.patch.object(torch, "from_numpy", marked), _Devices(noticed):
        yield noticed
