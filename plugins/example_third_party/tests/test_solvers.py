"""Frank-Wolfe and the reference against a conic solver."""

from dataclasses import replace

import pytest
import torch
from ball_instances import conic_optimum
from norm_ball_learning.ball import RidgeOnBall
from norm_ball_learning.frank_wolfe import FrankWolfe, FrankWolfeConfig, linear_minimiser
from norm_ball_learning.reference import BallReference, BallReferenceConfig

from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.reference import ReferenceOracle
from drobench.objective.regularizers import ElasticNet, EuclideanBall, L1Ball, Zero
from drobench.reformulation.certificates import lower_bound
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess


def composite_oracle(form):
    return build_oracle(find_route(form, (Composite,), ReformulationConfig()).form, 0, form.losses.origin())


def test_frank_wolfe_reaches_the_conic_optimum_and_its_gap_is_a_bound(form):
    optimum, _ = conic_optimum(form)
    solver, oracle, alone = FrankWolfe(FrankWolfeConfig()), composite_oracle(form), SingleProcess()
    state = solver.init(form.losses.origin(), oracle, alone)
    excesses = []
    for _ in range(2000):
        before = form.value(state.point).item() - optimum
        state = solver.step(state, oracle, alone)
        assert -1e-9 <= before <= state.duality_gap + 1e-9
        excesses.append(before)
    assert excesses[-1] < 1e-3 * excesses[0]
    # At the rate 1/t of the theorem, or faster.
    assert excesses[1999] < 1.5 * excesses[499] * 500 / 2000 + 1e-9


def test_the_reference_agrees_with_the_conic_solver_and_is_certified(form):
    optimum, expected = conic_optimum(form)
    start, alone = form.losses.origin(), SingleProcess()
    solver, oracle = BallReference(BallReferenceConfig()), ReferenceOracle(form, 0, start)
    state = solver.step(solver.init(start, oracle, alone), oracle, alone)
    point = solver.solution(state)
    torch.testing.assert_close(point, torch.from_numpy(expected), atol=1e-5, rtol=0)
    assert form.value(point).item() == pytest.approx(optimum, rel=1e-8)
    below = lower_bound(form, point)
    assert below is not None
    assert -1e-12 < form.value(point).item() - below < 1e-9


@pytest.mark.parametrize(
    ("regularizer", "expected"),
    [
        (EuclideanBall(2.0), [-1.6, 1.2, 0.0]),
        (RidgeOnBall(2.0, 1.0), [-1.6, 1.2, 0.0]),
        (RidgeOnBall(20.0, 1.0), [-4.0, 3.0, 0.0]),
        (L1Ball(2.0), [-2.0, 0.0, 0.0]),
        (ElasticNet(l1=1.0, l2=0.5), [-6.0, 4.0, 0.0]),
    ],
    ids=["ball", "ridge, on the sphere", "ridge, inside", "l1 ball", "elastic net"],
)
def test_linear_minimisation_has_the_closed_forms(regularizer, expected):
    class Proximal:
        prox = staticmethod(regularizer.prox)

    gradient = torch.tensor([4.0, -3.0, 0.0], dtype=torch.float64)
    found = linear_minimiser(gradient, torch.zeros(3, dtype=torch.float64), Proximal)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("regularizer", [Zero(), ElasticNet(l1=0.1)])
def test_a_problem_without_bounds_is_refused(regularizer):
    class Proximal:
        prox = staticmethod(regularizer.prox)

    with pytest.raises(DrobenchError, match="bounded set"):
        FrankWolfe(FrankWolfeConfig()).init(torch.zeros(3, dtype=torch.float64), Proximal, SingleProcess())


def test_the_reference_refuses_other_problems(form):
    start = form.losses.origin()
    other = ReferenceOracle(replace(form, regularizer=ElasticNet(l2=0.1)), 0, start)
    with pytest.raises(DrobenchError, match="over a ball; found a ElasticNet"):
        BallReference(BallReferenceConfig()).init(start, other, SingleProcess())


def test_the_first_steps_go_the_whole_way_and_then_two_thirds_of_it(form):
    solver, oracle, alone = FrankWolfe(FrankWolfeConfig()), composite_oracle(form), SingleProcess()
    start = torch.full((4,), 0.1, dtype=torch.float64)

    def corner(point):
        """The minimiser of <g, s> + (l2 / 2) |s|^2 over the ball, in closed form."""
        free = -form.smooth_gradient(point) / form.regularizer.l2
        return free * min(1.0, form.regularizer.radius / free.norm().item())

    first = solver.step(solver.init(start, oracle, alone), oracle, alone)
    torch.testing.assert_close(first.point, corner(start), rtol=1e-5, atol=1e-6)
    second = solver.step(first, oracle, alone)
    expected = first.point / 3 + 2 * corner(first.point) / 3
    torch.testing.assert_close(second.point, expected, rtol=1e-5, atol=1e-6)
