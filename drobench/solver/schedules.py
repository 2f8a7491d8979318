"""How long an epoch is and how many rows it draws.

    constant     tau, S and B as set; by default tau = 2 sqrt(m), S = sqrt(m) / 2, B = m
    square_root  tau = S = sqrt(m), B = m
    adaptive     q_t = min(growth t + initial, sqrt(m)), tau = S = q_t, B = q_t^2

with m the larger of the numbers of samples and of constraints.
"""

import math
from dataclasses import dataclass

from drobench.errors import require_non_negative, require_one_of, require_positive


@dataclass(frozen=True)
class Epoch:
    """The sizes of one epoch."""

    length: int
    """tau, steps."""
    refresh: int | None
    """B, rows of the refresh it begins with; `None`: all."""
    batch: int | None
    """S, samples that a step draws; `None`: all of them."""
    constraint_batch: int | None
    """The same for constraints."""


@dataclass(kw_only=True)
class ScheduleConfig:
    """Settings of a method of epochs; `null` means the rule described at each."""

    schedule: str = "constant"
    """`constant`: tau, S and B as set below. `square_root`: tau = S = sqrt(m), B = m. `adaptive`: q_t = min(growth t +
    initial, sqrt(m)), tau = S = q_t, B = q_t^2."""
    epoch_length: int | None = None
    """tau of the constant schedule; null: 2 sqrt(m)."""
    batch: int | None = None
    """S of the constant schedule; null: sqrt(m) / 2."""
    constraint_batch: int | None = None
    """The same for constraints, where the problem has them; null: `batch`, and without that sqrt(M) / 2 of all M."""
    whole_samples: bool = False
    """Under constraints, evaluate the objective on all samples in every step, and draw only constraints."""
    refresh_batch: int | None = None
    """B of the constant schedule; null: all rows."""
    growth: float = 2.0
    """Of q_t, from epoch to epoch of the adaptive schedule."""
    initial: float = 5.0
    """What q_t grows from."""

    def __post_init__(self) -> None:
        require_one_of(self, "schedule", ("constant", "square_root", "adaptive"))
        require_positive(self, "epoch_length", "batch", "constraint_batch", "refresh_batch", "initial")
        require_non_negative(self, "growth")

    def epoch(self, number: int, samples: int, constraints: int) -> Epoch:
        """Return the sizes of an epoch, counted from zero."""
        population = max(samples, constraints)
        root = math.sqrt(population)
        if self.schedule == "constant":
            batches = self.batch, self.constraint_batch or self.batch
            length, refresh = self.epoch_length or long_epoch(population), self.refresh_batch
        else:
            size = root if self.schedule == "square_root" else min(self.growth * (number + 1) + self.initial, root)
            length = max(1, math.floor(size))
            # Floors come after squaring, or the refresh would never reach the full set.
            batches, refresh = (length, length), None if size >= root else max(1, math.floor(size * size))
        whole = self.whole_samples and constraints > 0
        return Epoch(
            length,
            None if refresh is None or refresh >= population else refresh,
            None if whole else batches[0] or small_batch(samples),
            batches[1] or small_batch(constraints),
        )


def small_batch(population: int) -> int:
    """Return S = sqrt(m) / 2, at least one."""
    return max(1, math.floor(0.5 * math.sqrt(population)))


def long_epoch(population: int) -> int:
    """Return tau = 2 sqrt(m), at least one, which with such a batch costs as much as tau = S = sqrt(m)."""
    return max(1, math.floor(2.0 * math.sqrt(population)))
