"""The compact BFGS matrices against the recursion on dense ones."""

import math

import numpy as np
import pytest
import torch

from drobench_plugins.solvers.pieces.curvature_pairs import no_pairs

SIZE, MEMORY, COSINE = 6, 4, 1e-10


def sampled_pairs(count, seed=0, dtype=torch.float64):
    """Return moves and what a positive matrix, a little different for each, makes of them."""
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64)
    found = []
    for _ in range(count):
        move = torch.randn(SIZE, generator=generator, dtype=torch.float64)
        bend = root @ root.T + torch.diag(torch.rand(SIZE, generator=generator, dtype=torch.float64))
        found.append((move.to(dtype), (bend @ move).to(dtype)))
    return found


def remembered(pairs, memory=MEMORY):
    kept = no_pairs(pairs[0][0], memory, 3.0)
    for move, change in pairs:
        kept = kept.extended(move, change, COSINE)
    return kept


def dense(pairs):
    """Return `B` by the BFGS formula, one pair after the other, from the curvature that the newest one shows."""
    move, change = (part.double().numpy() for part in pairs[-1])
    matrix = change @ change / (move @ change) * np.eye(SIZE)
    for pair in pairs:
        move, change = (part.double().numpy() for part in pair)
        bent = matrix @ move
        matrix = matrix - np.outer(bent, bent) / (move @ bent) + np.outer(change, change) / (change @ move)
    return matrix


def columns(function, dtype=torch.float64):
    """Return the matrix of a linear map."""
    return np.stack([function(unit).double().numpy() for unit in torch.eye(SIZE, dtype=dtype)], axis=1)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 11])
def test_products_are_those_of_the_dense_recursion(count):
    pairs = sampled_pairs(count)
    kept = remembered(pairs)
    assert kept.count == min(count, MEMORY)
    expected = dense(pairs[-MEMORY:])
    np.testing.assert_allclose(columns(kept.product()), expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("count", [1, 3, 4, 5, 11])
def test_solutions_are_those_of_the_dense_inverse(count):
    pairs = sampled_pairs(count, seed=1)
    expected = np.linalg.inv(dense(pairs[-MEMORY:]))
    found = columns(remembered(pairs).solve)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("count", [0, 2, 9])
def test_solving_undoes_the_product(count):
    kept = remembered(sampled_pairs(count, seed=2)) if count else no_pairs(torch.zeros(SIZE).double(), MEMORY, 3.0)
    vector = torch.linspace(-1.0, 1.0, SIZE, dtype=torch.float64)
    torch.testing.assert_close(kept.solve(kept.product()(vector)), vector, rtol=0, atol=1e-9)


def test_the_newest_move_is_bent_into_its_change():
    pairs = sampled_pairs(7, seed=3)
    move, change = pairs[-1]
    torch.testing.assert_close(remembered(pairs).product()(move), change, rtol=1e-9, atol=1e-9)


def test_the_scale_of_a_pair_does_not_matter():
    pairs = sampled_pairs(3, seed=4)
    tiny = [(1e-9 * move, 1e-9 * change) for move, change in pairs]
    np.testing.assert_allclose(columns(remembered(tiny).solve), columns(remembered(pairs).solve), rtol=1e-9)


def test_an_empty_memory_is_a_multiple_of_the_identity():
    empty = no_pairs(torch.zeros(SIZE, dtype=torch.float64), MEMORY, 4.0)
    vector = torch.arange(SIZE, dtype=torch.float64)
    assert torch.equal(empty.product()(vector), 4.0 * vector)
    assert torch.equal(empty.solve(vector), vector / 4.0)


def test_pairs_without_curvature_are_left_out():
    kept = remembered(sampled_pairs(2, seed=5))
    move = torch.eye(SIZE, dtype=torch.float64)[0]
    across = torch.eye(SIZE, dtype=torch.float64)[1] + 1e-11 * move
    for change in (-move, 0.0 * move, across, math.nan * move, math.inf * move):
        assert kept.extended(move, change, COSINE) is kept
    assert kept.extended(0.0 * move, move, COSINE) is kept
    assert kept.extended(move, across, 1e-12).count == 3


def test_extending_leaves_the_pairs_before_as_they_were():
    pairs = sampled_pairs(6, seed=6)
    kept = remembered(pairs[:5])
    before = [part.clone() for part in (kept.moves, kept.changes, kept.inverse, kept.gram)]
    kept.extended(*pairs[5], COSINE)
    for part, copy in zip((kept.moves, kept.changes, kept.inverse, kept.gram), before, strict=True):
        assert torch.equal(part, copy)


def test_single_precision():
    pairs = sampled_pairs(9, seed=7, dtype=torch.float32)
    kept = remembered(pairs)
    assert kept.moves.dtype == kept.solve(pairs[0][0]).dtype == torch.float32
    expected = dense(pairs[-MEMORY:])
    found = columns(kept.product(), torch.float32)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 * np.abs(expected).max())
