"""Pieces that solvers share: rows in turn, steps that turn back, L-BFGS with an l1 part, draws of several levels."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from drobench.objective.sampling import Shard
from drobench_plugins.solvers.pieces.draws_in_turn import next_in_turn
from drobench_plugins.solvers.pieces.lbfgs import minimise, minimise_sparse
from drobench_plugins.solvers.pieces.multilevel import most_levels, multilevel_draws
from drobench_plugins.solvers.pieces.turning_steps import follow, next_pass, no_turns


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_rows_in_turn_begin_again_at_the_end():
    alone = SimpleNamespace(shard=Shard(), device=torch.device("cpu"))
    turns = [next_in_turn(steps, 3, 7, alone) for steps in range(3)]
    assert [rows.tolist() for rows, _ in turns] == [[0, 1, 2], [3, 4, 5], [6, 0, 1]]
    assert [share for _, share in turns] == [1.0] * 3


def test_processes_divide_the_rows_in_turn():
    parts = [
        next_in_turn(2, 3, 7, SimpleNamespace(shard=Shard(rank, 2), device=torch.device("cpu"))) for rank in (0, 1)
    ]
    assert torch.cat([rows for rows, _ in parts]).tolist() == [6, 0, 1]
    assert sum(share for _, share in parts) == pytest.approx(1.0)


def test_steps_that_go_on_do_not_turn_back_and_steps_that_alternate_do():
    onward = follow(follow(no_turns(vector(0.0)), vector(1.0), 2), vector(0.5), 2)
    assert (onward.agreement, onward.travelled, onward.calls) == (0.5, 1.25, 4)
    assert not onward.turn_back(0.2)
    back = follow(follow(no_turns(vector(0.0)), vector(1.0), 2), vector(-1.0), 2)
    assert back.turn_back(0.2)
    assert not back.turn_back(0.6)
    assert not back.turn_back(None)


def test_a_new_pass_remembers_the_last_step_only():
    turns = next_pass(follow(no_turns(vector(0.0)), vector(2.0), 5), vector(7.0), 1.5)
    assert (turns.agreement, turns.travelled, turns.calls, turns.height) == (0.0, 0.0, 0, 1.5)
    assert (turns.last.tolist(), turns.anchor.tolist()) == ([2.0], [7.0])
    assert no_turns(vector(1.0)).height == math.inf


def test_lbfgs_finds_the_minimum_and_the_l1_part_its_zeros():
    centre = vector(2.0, -0.3, 0.1)

    def smooth(point):
        return 0.5 * (point - centre).square().sum(), point - centre

    np.testing.assert_allclose(minimise(smooth, torch.zeros_like(centre), 1e-12, 100), centre, rtol=0, atol=1e-10)
    # The last coordinate has no l1 part.
    found = minimise_sparse(smooth, vector(-1.0, 1.0, 0.0), 0.5, 2, 1e-12, 100)
    np.testing.assert_allclose(found, [1.5, 0.0, 0.1], rtol=0, atol=1e-10)


def test_levels_double_the_batch_as_long_as_there_are_rows():
    assert most_levels(4, SimpleNamespace(samples=20, constraints=0)) == (2, 20)
    assert most_levels(4, SimpleNamespace(samples=100, constraints=9)) == (1, 9)
    assert most_levels(32, SimpleNamespace(samples=20, constraints=0)) == (1, 32)
    assert multilevel_draws(4, 2) == [[4, 0, 4], [4, 4, 8]]
