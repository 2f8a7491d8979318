"""What every composite promises: values from means, parts that add up to the draw, unbiased estimates."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from two_writings import DIMENSION, PAIRS, ZERO, moments

from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Rows, Shard


def test_the_value_is_assembled_from_means_already_paid_for(margin_losses, random_points):
    form, point = moments(margin_losses()), random_points(2, DIMENSION)
    estimate = form.estimate(point[None], form.everything(), None)
    again = form.value_at(point, estimate.inner_value[0], estimate.loss_value[0], estimate.shift)
    assert torch.equal(again, form.value(point))


@given(name=st.sampled_from(sorted(PAIRS)), parts=st.integers(1, 8), size=st.none() | st.integers(1, 11))
def test_share_weighted_parts_add_up_to_the_draw(name, parts, size, margin_losses, random_points):
    form = PAIRS[name][0](margin_losses())
    start, points = torch.zeros(DIMENSION, dtype=torch.float64), random_points(0, 2, DIMENSION)
    whole = form.estimate(points, CompositeOracle(form, 5, start).draw(size), ZERO)
    totals = [0.0] * 4
    for rank in range(parts):
        rows = CompositeOracle(form, 5, start, Shard(rank, parts)).draw(size)
        part = form.estimate(points, rows, ZERO)[:4]
        totals = [total + rows.sample_share * field for total, field in zip(totals, part, strict=True)]
    for total, field in zip(totals, whole[:4], strict=True):
        torch.testing.assert_close(total, field, rtol=1e-12, atol=1e-14)


def test_estimates_on_draws_are_unbiased(margin_losses, random_points):
    form, points = moments(margin_losses(samples=6)), random_points(0, 1, DIMENSION)
    full = form.estimate(points, form.everything(), ZERO)
    pairs = [(i, j) for i in range(6) for j in range(i)]
    averages = [
        np.mean([form.estimate(points, Rows(torch.tensor(p)), ZERO)[k].numpy() for p in pairs], axis=0)
        for k in range(4)
    ]
    for average, field in zip(averages, full[:4], strict=True):
        torch.testing.assert_close(torch.from_numpy(np.asarray(average)), field, rtol=1e-12, atol=1e-14)
