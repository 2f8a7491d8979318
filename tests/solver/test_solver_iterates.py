"""What is remembered of the iterates; that the random one is uniform is shown where GCIVR returns it."""

import numpy as np
import torch

from drobench.solver.iterates import extended_mean, no_trail

POINTS = torch.arange(12.0, dtype=torch.float64).reshape(6, 2).square()


def test_a_mean_grows_by_one_iterate():
    mean = torch.zeros(2, dtype=torch.float64)
    for count, point in enumerate(POINTS, start=1):
        mean = extended_mean(mean, point, count)
        torch.testing.assert_close(mean, POINTS[:count].mean(dim=0), rtol=0, atol=1e-13)


def test_a_trail_keeps_only_what_is_asked_for():
    generator = np.random.default_rng(0)
    untouched = generator.bit_generator.state
    trail = no_trail(POINTS[0], average=False)
    assert trail.extend(POINTS[1], generator, choose=False) is trail
    averaging = no_trail(POINTS[0], average=True).extend(POINTS[1], generator, choose=False)
    assert torch.equal(averaging.mean, POINTS[1])
    assert averaging.visited == 1
    # Nothing is drawn where no random iterate is asked for.
    assert generator.bit_generator.state == untouched


def test_the_first_iterate_is_always_a_candidate_and_the_start_never():
    for seed in range(20):
        trail = no_trail(POINTS[0], average=False)
        trail = trail.extend(POINTS[1], np.random.default_rng(seed), choose=True)
        assert torch.equal(trail.chosen, POINTS[1])
