"""C-SAGA against a plain loop with its table in numpy; the terms of rows; what it refuses."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from composite_samples import GAMMA, KINDS, Terms, composite_sample, half_spaces

from drobench.errors import DrobenchError
from drobench.objective.ambiguity_sets import KLBall
from drobench.objective.composite import Composite
from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import Losses
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.streamed_losses import StreamedLosses
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import NeedsNotMet, check_requirements
from drobench.solver import SingleProcess
from drobench_plugins.solvers.c_saga import CSaga, CSagaConfig, entry


@pytest.mark.parametrize("kind", KINDS)
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, kind):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    oracle = sample.oracle(5)
    states = trace(CSaga(CSagaConfig(step_size=0.1, batch=6, turning=None)), oracle, sample.start, 60)
    generator, x = np.random.default_rng(5), sample.start.numpy()
    table = Terms(*(part.copy() for part in sample.terms(x)))
    x = sample.prox(x - 0.1 * sample.direction(table.mean()), 0.1)
    for state in states[2:]:
        index = sample.draw(generator, 6)
        new = sample.terms(x, index)
        estimates = Terms(
            *(old.mean(axis=0) + (now - old[index]).mean(axis=0) for old, now in zip(table, new, strict=True))
        )
        for old, now in zip(table, new, strict=True):
            old[index] = now
        x = sample.prox(x - 0.1 * sample.direction(estimates), 0.1)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-11)
    assert oracle.counters.sample_calls == 60 + 59 * 6
    for state in states[1:]:
        kept = state.table
        np.testing.assert_allclose(kept.mean.numpy(), kept.terms.mean(0).numpy(), rtol=0, atol=1e-13)
    expected = np.concatenate([table.inner, table.jacobian.reshape(60, -1), table.loss], axis=1)
    shifted = np.exp(-float(kept.shift) / GAMMA) if kind == "kl" else 1.0
    inner = table.inner.shape[1] * (1 + table.jacobian.shape[2])
    expected[:, :inner] *= shifted
    np.testing.assert_allclose(kept.terms.numpy(), expected[:, : kept.terms.shape[1]], rtol=0, atol=1e-11)


def test_most_steps_leave_the_table_as_it_is_and_write_to_its_log(synthetic, trace):
    data = synthetic(400, 4, 0)
    states = trace(CSaga(CSagaConfig(step_size=0.1, batch=4)), data.oracle(0.5, 0), data.start, 60)
    bases = {id(state.table.base) for state in states[1:]}
    # A log of sqrt(2 * 400 * 4) = 57 rows is full after 15 draws of 4.
    assert len(bases) == 4
    assert max(state.table.log.shape[0] for state in states[1:]) < 57


def test_a_step_from_the_same_state_can_be_repeated(synthetic, trace):
    data = synthetic(400, 4, 0)
    solver, oracle = CSaga(CSagaConfig(step_size=0.1, batch=4)), data.oracle(0.5, 0)
    before, position = trace(solver, oracle, data.start, 14)[-1], oracle.state_dict()
    kept = before.table.terms
    after = []
    for _ in range(2):
        oracle.load_state_dict(position)
        state = before
        for _ in range(5):
            state = solver.step(state, oracle, SingleProcess())
        after.append(state)
    assert torch.equal(after[0].point, after[1].point)
    assert torch.equal(after[0].table.terms, after[1].table.terms)
    assert torch.equal(before.table.terms, kept)


@pytest.mark.convergence
def test_it_converges_faster_than_anything_without_a_table(synthetic):
    data, mu = synthetic(1024, 10, 0), 1e-2
    data = data._replace(rows=data.rows * 10.0 ** (torch.arange(10, dtype=torch.float64) / 9) / 2)  # well conditioned
    problem, oracle, alone = data.numpy(), data.oracle(1.0, 0, ElasticNet(l2=mu)), SingleProcess()
    least, most = problem.optimum(1.0, mu)[1], problem.robust(np.zeros(10), 1.0, mu)[0]
    solver = CSaga(CSagaConfig(step_size=0.02 / problem.curvature(np.zeros(10), 1.0), batch=8))
    state = solver.init(data.start, oracle, alone)
    for passes, goal in ((20.0, 1e-11), (26.0, 1e-12)):
        while oracle.passes < passes:
            state = solver.step(state, oracle, alone)
        assert problem.robust(state.point.numpy(), 1.0, mu)[0] - least < goal * (most - least)


@pytest.mark.convergence
@pytest.mark.parametrize("scale", [0.2, 1.0, 8.0])
def test_a_step_size_that_is_too_large_is_halved_until_it_is_not(synthetic, scale):
    data, mu = synthetic(300, 5, 0), 1e-2
    problem, oracle, alone = data.numpy(), data.oracle(1.0, 0, ElasticNet(l2=mu)), SingleProcess()
    least, most = problem.optimum(1.0, mu)[1], problem.robust(np.zeros(5), 1.0, mu)[0]
    solver = CSaga(CSagaConfig(step_size=scale / problem.curvature(np.zeros(5), 1.0), batch=8))
    state = solver.init(data.start, oracle, alone)
    first = state.step_size
    while oracle.passes < 60.0:
        state = solver.step(state, oracle, alone)
    assert problem.robust(state.point.numpy(), 1.0, mu)[0] - least < 1e-8 * (most - least)
    assert scale < 8.0 or state.step_size < first


def test_exponentials_beyond_the_range_are_kept_at_a_higher_shift(synthetic, trace):
    # Losses up to 8 over gamma = 0.005: exponents of 1600, where numbers end at 709.
    data, gamma = synthetic(40, 3, 0), 0.005
    start = torch.zeros(3, dtype=torch.float64)
    oracle = data.oracle(gamma, 2)
    states = trace(CSaga(CSagaConfig(step_size=3.0, batch=4, turning=None)), oracle, start, 20)
    shifts = [float(state.table.shift) for state in states[1:]]
    assert max(shifts) > shifts[0] + 500 * gamma
    for state in states:
        assert bool(state.point.isfinite().all())
    for state in states[1:]:
        value = state.table.terms[:, :1].mean(0)
        torch.testing.assert_close(state.table.mean[:1], value, rtol=1e-9, atol=0)
        assert float(value) > 0


def test_a_table_out_of_range_is_measured_afresh(twenty, trace):
    solver, oracle = CSaga(CSagaConfig(step_size=0.1, batch=4)), twenty.oracle(0.5, 0)
    before = trace(solver, oracle, twenty.start, 5)[-1]
    calls = oracle.counters.sample_calls
    # As if the losses had fallen by 400 gamma since the shift was chosen.
    low = oracle.row_terms(before.point, oracle.draw(), before.table.shift + 400 * 0.5)
    assert float(low.inner_value.max()) < 1e-150
    terms = torch.cat([low.inner_value, low.inner_jacobian.flatten(start_dim=1)], dim=1)
    mean, places = terms.mean(0), torch.full_like(before.table.places, -1)
    table = replace(before.table, base=terms, places=places, mean=mean, peak=mean[:1], shift=low.shift)
    state = replace(before, table=table)
    after = solver.step(state, oracle, SingleProcess())
    # Twenty for the terms above, four for the draw, twenty for the new table.
    assert oracle.counters.sample_calls - calls == 20 + 4 + 20
    assert float(after.table.mean[0]) == pytest.approx(1.0, abs=1e-12)


def test_an_inner_value_out_of_its_domain_is_replaced_by_the_mean_of_the_table(synthetic, trace):
    sample = composite_sample("kl", synthetic(40, 3, 1))
    start = 3.0 * torch.ones(3, dtype=torch.float64)
    states = trace(CSaga(CSagaConfig(step_size=0.3, batch=2, turning=None)), sample.oracle(3), start, 80)
    generator, left = np.random.default_rng(3), 0
    table = Terms(*(part.copy() for part in sample.terms(start.numpy())))
    for before, after in pairwise(states[1:]):
        x, index = before.point.numpy(), sample.draw(generator, 2)
        new = sample.terms(x, index)
        estimates = Terms(*(old.mean(0) + (now - old[index]).mean(0) for old, now in zip(table, new, strict=True)))
        for old, now in zip(table, new, strict=True):
            old[index] = now
        if estimates.inner[0] < new.inner.sum() / 40:
            estimates, left = table.mean(), left + 1
        expected = sample.prox(x - 0.3 * sample.direction(estimates), 0.3)
        np.testing.assert_allclose(after.point.numpy(), expected, rtol=1e-9, atol=1e-9)
    assert left > 0


class Plain(Losses):
    """The same losses without their own gradients of rows."""

    def __init__(self, losses):
        self.inside, self.samples, self.dimension, self.convex = losses, losses.samples, losses.dimension, True

    def origin(self):
        return self.inside.origin()

    def linearize(self, points, index):
        return self.inside.linearize(points, index)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [slice(None), torch.tensor([3, 70, 0])])
def test_the_terms_of_rows_are_those_of_numpy_and_their_means_those_of_an_estimate(synthetic, kind, index):
    data = synthetic(90, 4, 0)  # more than are looked at at once
    sample = composite_sample(kind, data)
    point = torch.linspace(0.5, 1.5, sample.start.numel(), dtype=torch.float64)
    oracle = sample.oracle(0)
    rows = oracle.draw()._replace(samples=index)
    shift = torch.zeros((), dtype=torch.float64)
    form = oracle.materialise()
    looked = oracle.counters.sample_calls
    for losses in (form.losses, Plain(form.losses)):
        form.losses = losses
        found = oracle.row_terms(point, rows, shift)
        expected = sample.terms(point.numpy(), index if isinstance(index, slice) else index.numpy())
        np.testing.assert_allclose(found.inner_value.numpy(), expected.inner, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(found.inner_jacobian.numpy(), expected.jacobian, rtol=1e-12, atol=1e-13)
        if found.loss_gradient is not None:
            np.testing.assert_allclose(found.loss_gradient.numpy(), expected.loss, rtol=1e-12, atol=1e-13)
        means = oracle.estimate(point[None], rows, shift)
        torch.testing.assert_close(found.inner_jacobian.mean(0), means.inner_jacobian[0], rtol=1e-12, atol=1e-13)
    count = 90 if isinstance(index, slice) else 3
    assert oracle.counters.sample_calls - looked == 4 * count
    assert oracle.counters.inner_jacobians == 4 * count * (oracle.outputs > 0)


def test_rows_that_are_loaded_when_needed_have_the_same_terms(synthetic):
    data = synthetic(90, 4, 0)

    def load(index):
        return type(data)(data.rows[index], data.signs[index]).losses

    point = torch.linspace(-1.0, 1.0, 4, dtype=torch.float64)
    streamed = StreamedLosses(load, 90, 25).row_gradients(point, slice(None))
    for one, other in zip(streamed, data.losses.row_gradients(point, slice(None)), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)


def test_a_varying_temperature_has_terms_too(synthetic):
    data = synthetic(30, 4, 0)
    form = find_route(RobustRisk(data.losses, KLBall(0.3), ElasticNet()), (Composite,), ReformulationConfig()).form
    oracle = CompositeOracle(form, 0, torch.ones(5, dtype=torch.float64))
    point, everything = torch.linspace(0.2, 1.0, 5, dtype=torch.float64), oracle.draw()
    found, means = oracle.row_terms(point, everything), oracle.estimate(point[None], everything)
    torch.testing.assert_close(found.inner_value.mean(0), means.inner_value[0], rtol=1e-13, atol=0)
    torch.testing.assert_close(found.inner_jacobian.mean(0), means.inner_jacobian[0], rtol=1e-12, atol=1e-14)


def test_functions_in_python_have_terms_too(half_square, trace):
    slopes = torch.tensor([1.0, 3.0], dtype=torch.float64)
    composite = FunctionComposite(
        1,
        2,
        1,
        ElasticNet(l1=0.1),
        inner=lambda point, numbers: slopes[numbers] * point,
        outer=half_square,
        loss=lambda point, numbers: 0.5 * (slopes[numbers] - 1.0) * point.square(),
    )
    start = torch.ones(1, dtype=torch.float64)
    states = trace(CSaga(CSagaConfig(step_size=0.1, batch=1)), CompositeOracle(composite, 0, start), start, 3)
    # By hand: J^T f' + h' = 2 * 2 + 1 = 5, then the proximal map of 0.1 |x|.
    assert states[1].point.item() == pytest.approx(1.0 - 0.5 - 0.01, abs=1e-15)
    drawn = int(np.random.default_rng(0).choice(2, 1, replace=False, shuffle=False)[0])
    a = float(slopes[drawn])
    y, w = 2.0 + a * (0.49 - 1.0), 1.0 + (a - 1.0) * (0.49 - 1.0)
    assert states[2].point.item() == pytest.approx(0.49 - 0.1 * (2.0 * y + w) - 0.01, abs=1e-15)


def test_too_large_a_table_is_refused_in_words(twenty):
    with pytest.raises(DrobenchError, match=r"table of 80 numbers for 20 rows and 3 parameters; at most 79"):
        CSaga(CSagaConfig(step_size=1.0, largest_table=79)).init(twenty.start, twenty.oracle(0.5, 0), SingleProcess())
    CSaga(CSagaConfig(step_size=1.0, largest_table=80)).init(twenty.start, twenty.oracle(0.5, 0), SingleProcess())


def test_constraints_and_several_processes_are_refused_in_words(twenty):
    oracle, start, _ = half_spaces()
    with pytest.raises(NeedsNotMet, match=r"'c_saga' requires .* as a SmoothedConstraints, .*: row_terms, that is, "):
        check_requirements(entry(), oracle.materialise())
    check_requirements(entry(), twenty.oracle(0.5, 0).materialise())
    with pytest.raises(DrobenchError, match="SmoothedConstraints, which has none to give"):
        oracle.row_terms(start, oracle.draw())
    several = SingleProcess()
    several.world_size = 2
    with pytest.raises(DrobenchError, match="c_saga runs on one process; found 2"):
        CSaga(CSagaConfig()).init(twenty.start, twenty.oracle(0.5, 0), several)
    assert entry().one_process
