"""Across problems: performance profiles (Dolan and Moré) with their area as one number.

An instance is a board with one of the targets. The cost of a solver on it is the median over seeds, infinite where the
target is not reached; its ratio is that cost divided by the least cost of any solver. The profile says for which share
of the instances the ratio is at most tau. The score is the mean of the profile between 1 and 4, so that 1 is the
fastest everywhere and more than four times slower than the fastest earns nothing.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from drobench.results.comparison.statistics import CONFIDENCE

LARGEST_RATIO = 4.0
RESAMPLES = 500

Array = numpy.ndarray[Any, numpy.dtype[Any]]


@dataclass(frozen=True)
class Instance:
    """One target on one board.

    Attributes:
        board: Title of the board.
        target: Label of the target.
        costs: For each solver, what reaching the target cost with each seed, in the order of the seeds.
    """

    board: str
    target: str
    costs: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Profile:
    """One solver over all instances.

    Attributes:
        solver: Its name, and if need be what tells it from namesakes.
        score: Area under the profile up to a ratio of 4, between 0 and 1.
        low: Lower end of its 95% interval when the seeds are drawn again; the interval always holds the score itself.
        high: Upper end.
        reached: Share of the instances on which the median run reached the target.
        speedup: Geometric mean of the reference's cost over this solver's, where both reached the target; `None` where
            there is no such instance.
        ratios: Cost over least cost on each instance, infinite where the target was not reached.
    """

    solver: str
    score: float
    low: float
    high: float
    reached: float
    speedup: float | None
    ratios: tuple[float, ...]

    def share(self, ratio: float) -> float:
        """The profile itself: the share of instances on which the cost is at most `ratio` times the least."""
        return sum(found <= ratio for found in self.ratios) / len(self.ratios)


@dataclass(frozen=True)
class Profiles:
    """All solvers over the instances they share.

    Attributes:
        rows: Best score first.
        cost: What is counted: passes, oracle calls, seconds or bytes.
        reference: The solver that `speedup` is relative to.
        boards: Titles of the boards.
        instances: How many there are.
        unsolved: How many more there were that no solver reached; they are left out.
        left_out: Titles of boards on which one of the solvers was not run.
    """

    rows: tuple[Profile, ...]
    cost: str
    reference: str
    boards: tuple[str, ...]
    instances: int
    unsolved: int
    left_out: tuple[str, ...]


def profiles(instances: Sequence[Instance], cost: str, reference: str | None = None) -> Profiles | None:
    """Compare solvers over several boards; `None` unless at least two boards have the same two solvers or more.

    Args:
        instances: All of them.
        cost: The name of the cost, for the reader.
        reference: What the speed-up is relative to; `None`, or one that never arrives: the best score.
    """
    solvers = sorted({solver for instance in instances for solver in instance.costs})
    complete = [instance for instance in instances if set(instance.costs) == set(solvers)]
    titles = tuple(dict.fromkeys(instance.board for instance in complete))
    if len(titles) < 2 or len(solvers) < 2:
        return None
    medians = numpy.array([[numpy.median(instance.costs[name]) for instance in complete] for name in solvers])
    solved = numpy.isfinite(medians.min(axis=0))
    if not solved.any():
        return None
    counted = [instance for instance, kept in zip(complete, solved, strict=True) if kept]
    ratios = _ratios(medians[:, solved])
    scores = _areas(ratios).mean(axis=1)
    low, high = _score_intervals(complete, solvers)
    best = solvers[int(numpy.argmax(scores))]
    has_arrived = reference in solvers and numpy.isfinite(medians[solvers.index(reference), solved]).any()
    base = reference if reference is not None and has_arrived else best
    rows = [
        Profile(
            solver=name,
            score=float(scores[number]),
            low=float(min(low[number], scores[number])),
            high=float(max(high[number], scores[number])),
            reached=float(numpy.isfinite(ratios[number]).mean()),
            speedup=_speedup(medians[solvers.index(base), solved], medians[number, solved]),
            ratios=tuple(ratios[number].tolist()),
        )
        for number, name in enumerate(solvers)
    ]
    return Profiles(
        rows=tuple(sorted(rows, key=lambda row: (-row.score, -row.reached, row.solver))),
        cost=cost,
        reference=base,
        boards=titles,
        instances=len(counted),
        unsolved=len(complete) - len(counted),
        left_out=tuple(dict.fromkeys(instance.board for instance in instances if instance.board not in titles)),
    )


def _ratios(costs: Array) -> Array:
    """Cost over least cost, by solver and instance; where the least is nothing, only nothing is as good."""
    least = costs.min(axis=0)
    ratios = numpy.full(costs.shape, math.inf)
    divisible = numpy.isfinite(costs) & (least > 0)
    numpy.divide(costs, least, out=ratios, where=divisible)
    ratios[(costs == least) & numpy.isfinite(costs)] = 1.0
    return ratios


def _areas(ratios: Array) -> Array:
    """What each instance adds to the area: the profile is a step there, so no grid of ratios is needed."""
    return numpy.clip((LARGEST_RATIO - ratios) / (LARGEST_RATIO - 1), 0.0, 1.0)


def _score_intervals(instances: Sequence[Instance], solvers: Sequence[str], seed: int = 0) -> tuple[Array, Array]:
    """Draw the seeds of every board again, the same for all its solvers and targets.

    What nobody reaches is left out of each draw as it is left out of the score.
    """
    generator = numpy.random.default_rng(seed)
    boards: dict[str, list[Instance]] = defaultdict(list)
    for instance in instances:
        boards[instance.board].append(instance)
    total, solved = numpy.zeros((len(solvers), RESAMPLES)), numpy.zeros(RESAMPLES)
    for members in boards.values():
        seeds = len(members[0].costs[solvers[0]])
        drawn = generator.integers(0, seeds, (RESAMPLES, seeds))
        for instance in members:
            costs = numpy.array([instance.costs[name] for name in solvers], dtype=numpy.float64)
            medians = numpy.median(costs[:, drawn], axis=2)
            total += _areas(_ratios(medians))
            solved += numpy.isfinite(medians.min(axis=0))
    tail = (1 - CONFIDENCE) / 2
    low, high = numpy.quantile(total / numpy.maximum(solved, 1), [tail, 1 - tail], axis=1)
    return low, high


def _speedup(reference: Array, costs: Array) -> float | None:
    both = numpy.isfinite(reference) & numpy.isfinite(costs) & (reference > 0) & (costs > 0)
    if not both.any():
        return None
    return float(numpy.exp(numpy.log(reference[both] / costs[both]).mean()))
