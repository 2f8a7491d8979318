"""Runs with their curves, compared in one call, for the tests of this folder."""

import dataclasses

from result_samples import make_curve, make_record

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.question import Question
from drobench.results.record import Iterate

OPTIMUM = 1.0


class Runs:
    """Records with their curves; calling it gives a curve, as the store does."""

    def __init__(self):
        self.records = []
        self.curves = {}

    def add(self, solver, seed, objectives, *, feasible=True, curve=None, optimum=OPTIMUM, **settings):
        final = objectives[-1] if objectives else None
        gap = None if optimum is None or final is None else final - optimum
        point = Iterate(objective=final, gap=gap, train_error=0.25, test_error=final, feasible=feasible, step=10)
        settings = {"iterate": point if objectives else None} | settings
        record = make_record(solver, seed, optimum=optimum, **settings)
        self.records.append(record)
        self.curves[record.run_id] = make_curve(objectives, optimum) if curve is None else curve
        return record

    def compare(self, **settings):
        return leaderboard(self.records, self.curves.__getitem__, Question.of(**settings))

    def board(self, **settings):
        (board,) = self.compare(**settings).boards
        return board


def order(board):
    return [row.solver for row in board.rows]


def ranks(board):
    return {row.solver: row.rank for row in board.rows}


def add_many(runs, solver, objectives, seeds=range(8), **settings):
    """The same objectives for every seed, but for a little that differs from seed to seed."""
    return [
        runs.add(solver, seed, [*objectives[:-1], objectives[-1] + 1e-3 * (seed + 1)], **settings) for seed in seeds
    ]


def with_settings(record, **settings):
    """A record with other settings of problem (`surrogate`) or data (`seed`, with its own checksum)."""
    problem = dataclasses.replace(record.problem, config=record.problem.config | settings.get("problem", {}))
    dataset = record.dataset
    if "data_seed" in settings:
        number = settings["data_seed"]
        sha256 = None if record.dataset.sha256 is None else f"{number}" * 64
        dataset = dataclasses.replace(dataset, config={"seed": number}, sha256=sha256)
    return dataclasses.replace(record, problem=problem, dataset=dataset)


def add_split(runs, solver, data_seed, seed, objectives, surrogate, **settings):
    record = runs.add(solver, seed, objectives, reason=f"{data_seed} {surrogate}", **settings)
    runs.records[-1] = with_settings(record, problem={"surrogate": surrogate}, data_seed=data_seed)
