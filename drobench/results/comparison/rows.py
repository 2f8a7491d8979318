"""The rows of a board as values: one solver with one configuration each, and how it compares with others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from drobench.results.comparison.statistics import bootstrap_intervals, medians_of
from drobench.results.comparison.targets import COSTS, Target
from drobench.results.comparison.tuning import Tuning


@dataclass(frozen=True)
class Summary:
    """Median over runs with its 95% bootstrap interval; infinite where the target was not reached or a run failed."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        """Summarise one value per run."""
        return cls.of_many([values])[0]

    @classmethod
    def of_many(cls, samples: Sequence[Sequence[float]]) -> list["Summary"]:
        """Summarise many samples at once, which is much quicker where they have the same size."""
        found: dict[int, Summary] = {}
        for size in {len(sample) for sample in samples}:
            places = [place for place, sample in enumerate(samples) if len(sample) == size]
            values = numpy.array([samples[place] for place in places], dtype=numpy.float64)
            medians = medians_of(values).tolist()
            for place, middle, (low, high) in zip(places, medians, bootstrap_intervals(values).tolist(), strict=True):
                found[place] = cls(middle, low, high)
        return [found[place] for place in range(len(samples))]


@dataclass(frozen=True)
class Comparison:
    """Two solvers of one board, run by run with the same seeds.

    Attributes:
        better: Label of the one that stands higher in the order of the board.
        worse: Label of the other.
        pairs: How many seeds they share.
        wins: On how many of them the better one did better.
        losses: On how many the other did.
        p_value: Two-sided, of the signed-rank test.
        p_adjusted: The same after Holm's adjustment for all pairs of solvers of the board.
        significant: Whether that is at most 5%.
        quantity: What `effect` is about: a cost, `train_max_violation`, or the metric the board is ranked by.
        effect: Over the pairs: for a cost the worse one's over the better one's, else the worse one's minus the better
            one's, which is negative of a metric of which more is better; `None` where no pair has both.
        detectable: The least effect that as many pairs would show with a power of 80%, from the spread of this one;
            infinite where nothing can be significant, `None` where it cannot be said.
    """

    better: str
    worse: str
    pairs: int
    wins: int
    losses: int
    p_value: float
    p_adjusted: float
    significant: bool
    quantity: str
    effect: Summary | None
    detectable: float | None

    @property
    def is_ratio(self) -> bool:
        """Whether the effect is a ratio of costs rather than a difference."""
        return self.quantity in COSTS


@dataclass(frozen=True)
class Reached:
    """How one solver did with one target.

    Attributes:
        share: Of its runs, those that reached the target.
        costs: Summary by the names in `COSTS`; `None` if the target cannot be asked of any run of the board.
    """

    target: Target
    share: float
    costs: dict[str, Summary | None]


@dataclass(frozen=True)
class Row:
    """One solver with one configuration on one board.

    Attributes:
        rank: 1 is best; shared with the first of the group unless significantly worse than that one.
        solver: The label: the name of the solver, and what tells it from namesakes on the same board.
        name: The name of the solver alone.
        config: Its resolved config.
        seeds: The seeds compared, in order.
        run_ids: The runs compared, in the order of the seeds.
        failed: How many of them diverged, met a number that is not finite, or failed.
        feasible_share: Share of all runs whose iterate is feasible; a run without one is not.
        metrics: Summary by the names in `METRICS`, and of what was asked for beside them; `None` where no run has a
            value. A failed run counts as infinite.
        mean_place: Mean over the seeds of the place among the solvers of the board; `None` if no seed is shared.
        rank_interval: Positions between which the solver stays when the seeds are drawn again; `None` with few seeds.
        reached: One entry per target of the leaderboard.
        comparison: With the baseline, or else with the first of the board; `None` for that one itself.
        tuning: What the choice of the configuration cost; `None` unless one was chosen.
        worse_than_start: How many of the runs that did not fail ended worse than they began; 0 where another iterate
            than the last is compared.
    """

    rank: int
    solver: str
    name: str
    config: dict[str, Any]
    seeds: tuple[int, ...]
    run_ids: tuple[str, ...]
    failed: int
    feasible_share: float
    metrics: dict[str, Summary | None]
    mean_place: float | None = None
    rank_interval: tuple[int, int] | None = None
    reached: tuple[Reached, ...] = ()
    comparison: Comparison | None = None
    tuning: Tuning | None = None
    worse_than_start: int = 0

    @property
    def runs(self) -> int:
        """Number of runs compared."""
        return len(self.run_ids)

    def median(self, metric: str) -> float | None:
        """The median of a metric, `None` where no run has a value."""
        summary = self.metrics[metric]
        return None if summary is None else summary.median
