"""The clock: only what the solver does is timed, and the device has finished before the clock is read."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


class Clock:
    """Accumulates seconds under names such as `solver` and `evaluation`."""

    def __init__(
        self,
        device: torch.device,
        now: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[torch.device], None] = torch.cuda.synchronize,
    ) -> None:
        self.device = device
        self.now = now
        self.synchronize = synchronize
        self.seconds: dict[str, float] = {"solver": 0.0, "evaluation": 0.0}

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the duration of the block to `name`."""
        begin = self._read()
        try:
            yield
        finally:
            self.seconds[name] += self._read() - begin

    def _read(self) -> float:
        # Kernels run asynchronously on a GPU: without waiting, their time would fall into whatever comes next.
        if self.device.type == "cuda":
            self.synchronize(self.device)
        return self.now()
