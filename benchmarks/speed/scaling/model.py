"""The cost model: fitted to what was measured, asked for what was not."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls


@dataclass(frozen=True)
class CostModel:
    """Seconds of the parts of an epoch; see the text of this package."""

    refresh_row: float
    refresh_entry: float
    step: float
    step_row: float
    step_entry: float
    latency: float
    per_number: float

    def exchange(self, processes: int, numbers: float) -> float:
        """Return the seconds of one all-reduce."""
        ring = 2.0 * (processes - 1) / processes
        return self.latency * math.log2(processes) + ring * self.per_number * numbers

    def refresh(self, rows: float, features: float) -> float:
        """Return the seconds of measuring `rows` rows at one point."""
        return rows * (self.refresh_row + self.refresh_entry * features)

    def advance(self, rows: float, features: float) -> float:
        """Return the seconds of a step that measures `rows` rows at two points."""
        return self.step + rows * (self.step_row + self.step_entry * features)

    def epoch(self, processes: int, rows: float, features: float, batch: float) -> float:
        """Return the seconds of an epoch of `rows / batch` steps, the first of which is the refresh."""
        steps = rows / batch
        numbers = features + 2.0
        # A refresh agrees on the shift first.
        rounds = steps + 1.0
        compute = self.refresh(rows / processes, features) + (steps - 1.0) * self.advance(batch / processes, features)
        return compute + rounds * self.exchange(processes, numbers)

    def speed_up(self, processes: int, rows: float, features: float, batch: float) -> float:
        """Return how many times as fast an epoch is as on one process."""
        return self.epoch(1, rows, features, batch) / self.epoch(processes, rows, features, batch)


def fit(epochs: Sequence[Mapping[str, float]], exchanges: Sequence[Mapping[str, float]]) -> CostModel:
    """Return the model that fits the epochs of one process and the exchanges of two, in relative errors."""
    rows, features, batch, refresh, step = (
        np.array([case[name] for case in epochs]) for name in ("rows", "features", "batch", "refresh", "step")
    )
    refresh_costs = _fitted([rows, rows * features], refresh)
    step_costs = _fitted([np.ones_like(step), batch, batch * features], step)
    numbers, seconds = (np.array([case[name] for case in exchanges]) for name in ("numbers", "seconds"))
    exchange_costs = _fitted([np.ones_like(seconds), numbers], seconds)
    return CostModel(*refresh_costs, *step_costs, *exchange_costs)


def _fitted(columns: Sequence[np.ndarray], seconds: np.ndarray) -> list[float]:
    """Return costs of at least zero with least squared relative errors."""
    matrix = np.stack(columns, axis=1) / seconds[:, None]
    # Columns differ by many orders of magnitude.
    scales = np.linalg.norm(matrix, axis=0)
    costs, _ = nnls(matrix / scales, np.ones_like(seconds))
    return [float(cost) for cost in costs / scales]


def printed_speed_up(processes: int, rows: float, condition: float) -> float:
    """Return the speed-up that the paper's complexity m + m/p + kappa sqrt(m) amounts to."""

    def calls(count: int) -> float:
        return rows + rows / count + condition * math.sqrt(rows)

    return calls(1) / calls(processes)
