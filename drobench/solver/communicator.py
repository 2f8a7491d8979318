"""Exchange between the processes of one run, counted.

A solver only ever sums or takes maxima of tensors over all processes. Estimates are pooled *before* the gradient of
the outer function is applied, since the mean of `f'(g_local)` is not `f'(mean g)`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
import torch.distributed
from torch import Tensor


class Communicator(ABC):
    """Who takes part, and how they exchange tensors."""

    rank: int = 0
    world_size: int = 1

    def __init__(self) -> None:
        self.rounds = 0
        self.bytes = 0

    @abstractmethod
    def total(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the sums over all processes, exchanged in one round."""

    @abstractmethod
    def maximum(self, tensor: Tensor) -> Tensor:
        """Return the elementwise maximum over all processes."""


class SingleProcess(Communicator):
    """Nobody to talk to: every exchange is the identity and costs no round."""

    def total(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return list(tensors)

    def maximum(self, tensor: Tensor) -> Tensor:
        return tensor


class ProcessGroup(Communicator):
    """The default group of `torch.distributed`: gloo between CPU processes, nccl between GPUs."""

    def __init__(self) -> None:
        super().__init__()
        self.rank = torch.distributed.get_rank()
        self.world_size = torch.distributed.get_world_size()

    def total(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        # One fused buffer: on small problems a round costs far more than its bytes.
        buffer = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._count(buffer)
        torch.distributed.all_reduce(buffer)
        pieces = torch.split(buffer, [tensor.numel() for tensor in tensors])
        return [piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)]

    def maximum(self, tensor: Tensor) -> Tensor:
        buffer = tensor.clone()
        self._count(buffer)
        torch.distributed.all_reduce(buffer, op=torch.distributed.ReduceOp.MAX)
        return buffer

    def _count(self, buffer: Tensor) -> None:
        self.rounds += 1
        self.bytes += buffer.numel() * buffer.element_size()
