"""Wasserstein logistic regression as 2m + 1 numbered constraints: values, routes, and solvers that get there."""

import math

import pytest
import torch

from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, MinMax
from drobench.objective.losses import LinearMarginLosses, Margin
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.wasserstein import WassersteinRisk, norm_of
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import NoRouteError, find_route
from drobench.reformulation.wasserstein import literal_form
from drobench.reformulation.wasserstein_constraints import NumberedConstraints
from drobench.registry import NeedsNotMet, check_requirements
from drobench.solver import SingleProcess
from drobench_plugins.solvers import fulltouch
from drobench_plugins.solvers.fulltouch import FullTouch, FullTouchConfig
from drobench_plugins.solvers.lighttouch import LightTouch, LightTouchConfig
from drobench_plugins.solvers.midtouch import MidTouch, MidTouchConfig
from drobench_plugins.solvers.projected_sgd import ProjectedSgd, ProjectedSgdConfig

SAMPLES, PARAMETERS = 20, 3
OPTIMUM = 0.548187135  # radius 0.1, price 1, l2 norm, no regularizer


@pytest.fixture
def risk(t20_rows, t20_signs):
    margins = LinearMarginLosses(t20_rows, t20_signs, Margin())

    def make(flip_cost=1.0, norm="l2", l2=0.0):
        return WassersteinRisk(margins, 0.1, flip_cost, norm, ElasticNet(0.0, l2))

    return make


@pytest.fixture
def joint():
    size = PARAMETERS + 1 + SAMPLES
    return torch.randn(size, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def route_of(form, **options):
    return find_route(form, (Constrained,), ReformulationConfig(**options))


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_every_constraint_has_a_number_and_the_norm_has_the_last(risk, joint, norm):
    form = risk(0.5, norm)
    constraints = route_of(form).form.constraints
    point, bound, slack = joint[:3], joint[3], joint[4:]
    margins = form.margins.signed_rows @ point
    expected = torch.cat(
        [
            torch.log1p(torch.exp(-margins)) - slack,
            torch.log1p(torch.exp(margins)) - 0.5 * bound - slack,
            (norm_of(point, form.dual_norm) - bound)[None],
        ]
    )
    assert (constraints.count, constraints.cheap_count) == (2 * SAMPLES + 1, 0)
    for index in (slice(None), slice(5, 41), torch.tensor([40, 3, 40, 25]), torch.tensor([40]), torch.tensor([2, 39])):
        values, _ = constraints.surrogates(joint[None], index)
        torch.testing.assert_close(values[0], expected[index], rtol=1e-12, atol=1e-12)
        assert torch.equal(constraints.violations(joint[None], index), values)


@pytest.mark.parametrize("index", [slice(None), slice(38, 41), torch.tensor([40, 3, 40]), torch.tensor([7])])
def test_slopes_are_those_of_the_values(risk, joint, index):
    constraints = route_of(risk(0.5, "linf")).form.constraints
    points = torch.stack([joint, 0.5 * joint + 0.1])
    values, pullback = constraints.surrogates(points, index)
    rows = values.shape[1]
    jacobians = pullback(torch.eye(rows).double().expand(2, rows, rows))
    steps = 1e-6 * torch.eye(joint.numel()).double()
    for point, jacobian in zip(points, jacobians, strict=True):
        plus, minus = (constraints.surrogates(point + sign * steps, index)[0] for sign in (1.0, -1.0))
        torch.testing.assert_close(jacobian, ((plus - minus) / 2e-6).T, rtol=0, atol=1e-8)


def test_the_other_routes_are_as_they_were(risk):
    form = risk()
    for accepted in ((Composite,), (Composite, Constrained), (Constrained, Composite)):
        assert find_route(form, accepted, ReformulationConfig()).names == ["wasserstein_reduced"]
    assert find_route(form, (MinMax,), ReformulationConfig()).names == ["saddle"]
    assert route_of(form).names == ["wasserstein_constraints"]


def test_the_penalty_is_exact_unless_another_is_asked_for(risk):
    assert route_of(risk()).form.penalty == pytest.approx(2.2)
    assert route_of(risk(), alpha=3.0).form.penalty == 3.0


def test_without_flips_there_is_no_way(risk):
    with pytest.raises(NoRouteError, match="Composite"):
        route_of(risk(math.inf))


def test_lifting_is_feasible_and_recovering_keeps_the_parameters(risk, hat):
    route = route_of(risk())
    assert route.projects
    for point in (hat, 5 * hat, torch.zeros(3).double()):
        lifted = route.lift(point)
        assert float(route.form.constraints.surrogates(lifted[None], slice(None))[0].max()) <= 1e-12
        assert torch.equal(route.recover(lifted), point)


def test_the_nearest_feasible_point_is_that_of_a_conic_solver(risk, joint):
    constraints = NumberedConstraints(literal_form(risk()).constraints)
    nearest = constraints.project(joint)
    torch.testing.assert_close(nearest, constraints.project_conic(joint), rtol=0, atol=1e-4)
    assert float(constraints.surrogates(nearest[None], slice(None))[0].max()) <= 1e-8
    recovered = route_of(risk(), projection="euclidean").recover(joint)
    torch.testing.assert_close(recovered, nearest[:3], rtol=0, atol=1e-12)


def test_the_literal_constraints_themselves_are_refused_by_methods_that_draw(risk):
    literal = literal_form(risk())
    with pytest.raises(NeedsNotMet, match="beside those that are numbered"):
        check_requirements(fulltouch.entry(), literal)


@pytest.mark.convergence
@pytest.mark.parametrize(
    ("solver", "steps", "within"),
    [
        (FullTouch(FullTouchConfig(step_size=1.0, decay="convex")), 600, 0.01),
        (LightTouch(LightTouchConfig(step_size=1.0, decay="convex", adversary_step=0.01)), 1500, 0.02),
        (MidTouch(MidTouchConfig(step_size=1.0, decay="convex", adversary_step=0.01, full_steps=20)), 1500, 0.02),
        (ProjectedSgd(ProjectedSgdConfig(step_size=3.0, decay="convex")), 40, 0.01),
    ],
    ids=["fulltouch", "lighttouch", "midtouch", "projected_sgd"],
)
def test_methods_of_constraints_come_near_the_known_optimum(risk, solver, steps, within):
    """From 0.693 at the origin; the optimum is 0.548."""
    form, alone = risk(), SingleProcess()
    route = route_of(form)
    start = route.lift(torch.zeros(3).double())
    oracle = build_oracle(route.form, 0, start)
    state = solver.init(start, oracle, alone)
    for _ in range(steps):
        state = solver.step(state, oracle, alone)
    gap = float(form.value(route.recover(solver.solution(state)))) - OPTIMUM
    assert -1e-8 <= gap <= within
