"""Every proximal map against an interior-point solver, hand-made answers and the conditions of optimality."""

import math
import warnings
from dataclasses import dataclass
from itertools import product

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drobench.errors import DrobenchError
from drobench.objective.regularizers import (
    Affine,
    Blocks,
    Box,
    ElasticNet,
    EuclideanBall,
    L1Ball,
    NormCone,
    NotDifferentiableError,
    RegularizedCone,
    Regularizer,
    Simplex,
    Zero,
    single_bound,
)

DIMENSION = 6
SLOPE = torch.tensor([0.7, -1.3, 0.2, 0.0, 2.0, -0.4], dtype=torch.float64)
STEP_SIZES = (0.3, 1.7)
POINTS = st.lists(st.integers(-400, 400), min_size=DIMENSION, max_size=DIMENSION).map(
    # On a grid, so that coordinates are equal and zero now and then.
    lambda steps: torch.tensor(steps, dtype=torch.float64) / 50.0
)
# An interior-point solver finds the value to about 1e-7, hence the minimiser only to the root of that. Objective values
# and, for cones, the exact conditions of optimality are compared more sharply.
SOLVER_ACCURACY = 3e-4
CVXPY_NORM = {"l1": 1, "l2": 2, "linf": "inf"}
DUAL_ORDER = {"l1": math.inf, "l2": 2, "linf": 1}
ORDER = {"l1": 1, "l2": 2, "linf": math.inf}


@dataclass(frozen=True)
class Case:
    """A regularizer, and the same function in the words of the interior-point solver."""

    regularizer: Regularizer
    value: object = staticmethod(lambda y: 0.0)
    conditions: object = staticmethod(lambda y: [])


def elastic(l1, l2):
    return lambda y: l1 * cvxpy.norm1(y) + 0.5 * l2 * cvxpy.sum_squares(y)


def cone(norm):
    return lambda y: [cvxpy.norm(y[:-1], CVXPY_NORM[norm]) <= y[-1]]


def sloped(l2):
    return lambda y: 0.6 * y[-1] + 0.5 * l2 * cvxpy.sum_squares(y[:-1])


CASES = {
    "zero": Case(Zero()),
    "l1": Case(ElasticNet(l1=0.8), elastic(0.8, 0.0)),
    "l2": Case(ElasticNet(l2=1.5), elastic(0.0, 1.5)),
    "elastic_net": Case(ElasticNet(l1=0.4, l2=2.5), elastic(0.4, 2.5)),
    "no_weights": Case(ElasticNet()),
    "affine": Case(Affine(SLOPE, 3.0), lambda y: SLOPE.numpy() @ y + 3.0),
    "affine_elastic_net": Case(
        Affine(SLOPE, -1.0, ElasticNet(l1=0.4, l2=0.9)), lambda y: SLOPE.numpy() @ y - 1.0 + elastic(0.4, 0.9)(y)
    ),
    "box": Case(Box(-0.5, 0.75), conditions=lambda y: [y >= -0.5, y <= 0.75]),
    "euclidean_ball": Case(EuclideanBall(1.3), conditions=lambda y: [cvxpy.norm(y, 2) <= 1.3]),
    "simplex": Case(Simplex(), conditions=lambda y: [y >= 0, cvxpy.sum(y) == 1]),
    "simplex_total": Case(Simplex(2.5), conditions=lambda y: [y >= 0, cvxpy.sum(y) == 2.5]),
    "l1_ball": Case(L1Ball(1.7), conditions=lambda y: [cvxpy.norm1(y) <= 1.7]),
    "cone_l1": Case(NormCone("l1"), conditions=cone("l1")),
    "cone_l2": Case(NormCone("l2"), conditions=cone("l2")),
    "cone_linf": Case(NormCone("linf"), conditions=cone("linf")),
    "affine_cone_l1": Case(Affine(SLOPE, 0.5, NormCone("l1")), lambda y: SLOPE.numpy() @ y + 0.5, cone("l1")),
    "affine_cone_l2": Case(Affine(SLOPE, 0.5, NormCone("l2")), lambda y: SLOPE.numpy() @ y + 0.5, cone("l2")),
    "affine_cone_linf": Case(Affine(SLOPE, 0.5, NormCone("linf")), lambda y: SLOPE.numpy() @ y + 0.5, cone("linf")),
    "regularized_cone_l1": Case(RegularizedCone("l1", 0.6, 1.4), sloped(1.4), cone("l1")),
    "regularized_cone_l2": Case(RegularizedCone("l2", 0.6, 1.4), sloped(1.4), cone("l2")),
    "regularized_cone_linf": Case(RegularizedCone("linf", 0.6, 1.4), sloped(1.4), cone("linf")),
    "cone_without_quadratic": Case(RegularizedCone("l2", 0.6), lambda y: 0.6 * y[-1], cone("l2")),
    "blocks": Case(
        Blocks(4, ElasticNet(l1=0.4, l2=0.9), Affine(SLOPE[:2], 0.5, ElasticNet(l2=2.0))),
        lambda y: elastic(0.4, 0.9)(y[:4]) + SLOPE[:2].numpy() @ y[4:] + 0.5 + elastic(0.0, 2.0)(y[4:]),
    ),
    "blocks_with_box": Case(
        Blocks(4, ElasticNet(l1=0.4), Box(0.25, math.inf)),
        lambda y: elastic(0.4, 0.0)(y[:4]),
        lambda y: [y[4:] >= 0.25],
    ),
}
INDICATORS = ["box", "euclidean_ball", "simplex", "simplex_total", "l1_ball", "cone_l1", "cone_l2", "cone_linf"]
# Functions that are finite on a set only.
RESTRICTED = [
    *("affine_cone_l1", "affine_cone_l2", "affine_cone_linf"),
    *("regularized_cone_l1", "regularized_cone_l2", "regularized_cone_linf", "cone_without_quadratic"),
    "blocks_with_box",
]
CULPRITS = dict.fromkeys(RESTRICTED[:3], "NormCone") | {"blocks_with_box": "Box"}


def reference_prox(case, point, step_size, metric=1.0):
    """Minimise `eta r(y) + sum metric (y - v)^2 / 2` with Clarabel."""
    y = cvxpy.Variable(point.numel())
    distance = cvxpy.sum_squares(cvxpy.multiply(np.sqrt(metric) * np.ones(point.numel()), y - point.numpy()))
    problem = cvxpy.Problem(cvxpy.Minimize(step_size * case.value(y) + 0.5 * distance), case.conditions(y))
    with warnings.catch_warnings():
        # At the apex of a cone the solver stops a little short of its own tolerance and says so.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver="CLARABEL")
    return torch.from_numpy(y.value)


def reference_value(case, y):
    """Return the finite part of `r` at the value of the variable `y`."""
    value = case.value(y)
    return value if isinstance(value, float) else float(value.value)


def cone_points(norm, random_points, weight=1.0):
    """Points in the cone, in its polar, and outside both with both signs of the bound."""
    points = {}
    for seed in range(3):
        inner = 2.0 * random_points(seed, DIMENSION - 1)
        size = torch.linalg.vector_norm(inner, ORDER[norm])
        dual_size = weight * torch.linalg.vector_norm(inner, DUAL_ORDER[norm])
        bounds = {
            "inside": 1.5 * size,
            "above": 0.6 * size,
            "just_above": 0.02 * size,
            "below": -0.5 * dual_size,
            "far_below": -0.95 * dual_size,
            "polar": -1.4 * dual_size,
        }
        points |= {f"{name}_{seed}": torch.cat([inner, bound[None]]) for name, bound in bounds.items()}
    return points


@pytest.mark.parametrize("name", CASES)
def test_the_proximal_map_is_that_of_an_interior_point_solver(name, random_points):
    case, y = CASES[name], cvxpy.Variable(DIMENSION)
    for step_size, seed in product(STEP_SIZES, range(4)):
        point = random_points(seed, DIMENSION) * (0.2, 1.0, 3.0, 10.0)[seed]
        before = point.clone()
        found = case.regularizer.prox(point, step_size)
        expected = reference_prox(case, point, step_size)
        torch.testing.assert_close(found, expected, rtol=0, atol=SOLVER_ACCURACY)
        assert torch.equal(point, before)
        y.value = expected.numpy()
        theirs = step_size * reference_value(case, y) + 0.5 * float((expected - point).square().sum())
        ours = step_size * float(case.regularizer.value(found)) + 0.5 * float((found - point).square().sum())
        assert ours <= theirs + 1e-6 * (1.0 + abs(theirs))
        assert found.shape == point.shape
        assert found.dtype == point.dtype


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_cones_project_from_inside_outside_and_the_polar_cone(norm, random_points):
    case = CASES[f"cone_{norm}"]
    for label, point in cone_points(norm, random_points).items():
        found = case.regularizer.prox(point, 0.5)
        torch.testing.assert_close(found, reference_prox(case, point, 0.5), rtol=0, atol=SOLVER_ACCURACY, msg=label)
        if label.startswith("inside"):
            assert torch.equal(found, point), label
        if label.startswith("polar"):
            assert torch.equal(found, torch.zeros_like(point)), label
        if label.startswith(("above", "below", "just", "far")):
            assert found[-1] > 0, label
            assert not torch.allclose(found, point), label


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("weight", [0.2, 3.5])
def test_cones_project_in_their_metric(norm, weight, random_points):
    metric = np.array([weight] * (DIMENSION - 1) + [1.0])
    for label, point in cone_points(norm, random_points, weight).items():
        found = NormCone(norm, weight).project(point)
        expected = reference_prox(CASES[f"cone_{norm}"], point, 1.0, metric)
        torch.testing.assert_close(found, expected, rtol=0, atol=SOLVER_ACCURACY, msg=label)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("weight", [1.0, 0.2, 3.5])
def test_cone_projections_obey_the_conditions_of_moreau(norm, weight, random_points):
    metric = torch.tensor([weight] * (DIMENSION - 1) + [1.0], dtype=torch.float64)
    for label, point in cone_points(norm, random_points, weight).items():
        found = NormCone(norm, weight).project(point)
        residual = metric * (point - found)
        assert torch.linalg.vector_norm(found[:-1], ORDER[norm]) <= found[-1] + 1e-13, label
        assert torch.linalg.vector_norm(residual[:-1], DUAL_ORDER[norm]) <= -residual[-1] + 1e-13, label
        assert abs(float(residual @ found)) <= 1e-12, label


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_cones_send_the_negative_axis_to_the_apex(norm):
    axis = torch.tensor([0.0, 0.0, -2.0], dtype=torch.float64)
    assert torch.equal(NormCone(norm).project(axis), torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_cones_keep_the_positive_axis_and_the_apex(norm):
    for bound in (0.0, 2.0):
        axis = torch.tensor([0.0, 0.0, bound], dtype=torch.float64)
        assert torch.equal(NormCone(norm).project(axis), axis)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_cones_of_one_inner_coordinate_agree(norm):
    point = torch.tensor([-3.0, 1.0], dtype=torch.float64)
    expected = torch.tensor([-2.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(NormCone(norm).project(point), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_cones_with_equal_and_zero_coordinates(norm):
    point = torch.tensor([2.0, -2.0, 2.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    found = NormCone(norm).project(point)
    torch.testing.assert_close(found, reference_prox(CASES[f"cone_{norm}"], point, 1.0), rtol=0, atol=SOLVER_ACCURACY)


@pytest.mark.parametrize(
    ("regularizer", "expected"),
    [
        (ElasticNet(l1=1.0), [2.5, 0.0, 0.5]),
        (ElasticNet(l2=2.0), [1.5, -0.25, 0.5]),
        (Simplex(), [1.0, 0.0, 0.0]),
        (L1Ball(2.0), [2.0, 0.0, 0.0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_proximal_maps_calculated_by_hand(regularizer, expected):
    point = torch.tensor([3.0, -0.5, 1.0], dtype=torch.float64)
    assert regularizer.prox(point, 0.5).tolist() == expected


@pytest.mark.parametrize(
    ("norm", "expected"), [("l2", [1.8, 2.4, 3.0]), ("l1", [1.0, 2.0, 3.0]), ("linf", [8 / 3, 8 / 3, 8 / 3])]
)
def test_cone_projections_calculated_by_hand(norm, expected):
    point = torch.tensor([3.0, 4.0, 1.0], dtype=torch.float64)
    assert NormCone(norm).prox(point, 0.5).tolist() == pytest.approx(expected, rel=4e-16, abs=0)


def test_the_affine_part_is_a_shift_and_its_constant_moves_nothing(random_points):
    point = random_points(3, DIMENSION)
    assert torch.equal(Affine(SLOPE).prox(point, 0.25), point - 0.25 * SLOPE)
    assert torch.equal(Affine(SLOPE, 100.0).prox(point, 0.25), Affine(SLOPE).prox(point, 0.25))


@pytest.mark.parametrize("name", CASES)
@given(one=POINTS, other=POINTS, step_size=st.floats(0.01, 10.0))
def test_the_proximal_map_is_optimal_and_firmly_nonexpansive(name, one, other, step_size):
    """Around its minimiser `eta r + |y - v|^2 / 2` rises at least like `(1 + eta mu) |y - y*|^2 / 2`.

    Twice this inequality, at either point for the other, is firm nonexpansiveness.
    """
    regularizer = CASES[name].regularizer
    modulus = 1.0 + step_size * regularizer.strong_convexity

    def cost(at, centre):
        return step_size * float(regularizer.value(at)) + 0.5 * float((at - centre).square().sum())

    found, elsewhere = regularizer.prox(one, step_size), regularizer.prox(other, step_size)
    distance = float((found - elsewhere).square().sum())
    rounding = 1e-11 * (1.0 + step_size) * (1.0 + float(one.square().sum() + other.square().sum()))
    assert cost(elsewhere, one) >= cost(found, one) + 0.5 * modulus * distance - rounding
    assert float((found - elsewhere) @ (one - other)) >= modulus * distance - rounding


def test_where_nothing_but_a_quadratic_weight_contracts_the_factor_is_exact(random_points):
    one, other = 3.0 * random_points(0, DIMENSION), 3.0 * random_points(50, DIMENSION)
    for name, step_size in product(("zero", "affine", "l2", "no_weights"), STEP_SIZES):
        regularizer = CASES[name].regularizer
        moved = (regularizer.prox(one, step_size) - regularizer.prox(other, step_size)).norm()
        factor = 1.0 / (1.0 + step_size * regularizer.strong_convexity)
        assert float(moved / (one - other).norm()) == pytest.approx(factor, rel=1e-12), name


def test_strong_convexity_is_the_quadratic_weight():
    assert ElasticNet(l1=0.4, l2=2.5).strong_convexity == 2.5
    assert Affine(SLOPE, 1.0, ElasticNet(l2=0.9)).strong_convexity == 0.9
    assert CASES["blocks"].regularizer.strong_convexity == 0.9
    others = set(CASES) - {"l2", "elastic_net", "affine_elastic_net", "blocks"}
    assert {name: CASES[name].regularizer.strong_convexity for name in others} == dict.fromkeys(others, 0.0)


def test_only_sets_and_functions_on_top_of_sets_are_projections():
    projecting = {name for name, case in CASES.items() if case.regularizer.is_indicator}
    assert projecting == {*INDICATORS, *RESTRICTED}


def test_values_are_those_of_the_formula(random_points):
    y = cvxpy.Variable(DIMENSION)
    for name, case in CASES.items():
        inside = case.regularizer.prox(random_points(5, DIMENSION), 0.4)
        y.value = inside.numpy()
        found = case.regularizer.value(inside)
        assert found.shape == ()
        assert found.dtype == torch.float64
        assert float(found) == pytest.approx(reference_value(case, y), rel=1e-13, abs=1e-15), name


def test_indicators_are_infinite_outside_their_set():
    outside = torch.tensor([3.0, -2.0, 1.0, 0.5, 0.1, -0.2], dtype=torch.float64)
    names = [*INDICATORS, *RESTRICTED]
    assert {name: float(CASES[name].regularizer.value(outside)) for name in names} == dict.fromkeys(names, math.inf)


@pytest.mark.parametrize("name", INDICATORS)
def test_indicators_notice_a_point_that_is_slightly_outside(name):
    regularizer = CASES[name].regularizer
    start = torch.tensor([3.0, -2.0, 1.0, 0.5, 0.1, -0.2], dtype=torch.float64)
    border = regularizer.prox(start, 1.0)
    assert float(regularizer.value(border)) == 0.0
    for offset in (1e-3, 1e-6):
        slightly = border + offset * (start - border) / (start - border).norm()
        assert float(regularizer.value(slightly)) == math.inf


@pytest.mark.parametrize("name", INDICATORS)
@given(point=POINTS, scale=st.sampled_from([1.0, 1e2, 1e3]), dtype=st.sampled_from([torch.float64, torch.float32]))
def test_a_projected_point_is_a_member_and_stays_where_it_is(name, point, scale, dtype):
    regularizer = CASES[name].regularizer
    once = regularizer.prox((scale * point).to(dtype), 1.0)
    assert float(regularizer.value(once)) == 0.0
    # A threshold is a difference of numbers as large as the point's.
    rounding = 8.0 * torch.finfo(dtype).eps * (1.0 + scale * float(point.abs().max()))
    torch.testing.assert_close(regularizer.prox(once, 1.0), once, rtol=0, atol=rounding)


@pytest.mark.parametrize("name", INDICATORS)
def test_a_projection_does_not_depend_on_the_step(name, random_points):
    regularizer = CASES[name].regularizer
    point = 4.0 * random_points(2, DIMENSION)
    assert torch.equal(regularizer.prox(point, 0.01), regularizer.prox(point, 50.0))


def test_the_ball_of_radius_zero_is_the_origin():
    point = torch.tensor([3.0, -1.0], dtype=torch.float64)
    assert L1Ball(0.0).project(point).tolist() == [0.0, 0.0]
    assert EuclideanBall(0.0).project(point).tolist() == [0.0, 0.0]


def test_the_simplex_is_found_from_far_away():
    far = torch.tensor([1e17, 0.0, -1.0], dtype=torch.float64)
    # One coordinate takes everything; the unit itself is below the spacing of numbers of this size.
    assert float(Simplex().project(far).sum()) <= 1.0


@pytest.mark.parametrize(
    "name", ["zero", "l1", "l2", "elastic_net", "no_weights", "affine", "affine_elastic_net", "blocks"]
)
def test_gradients_are_finite_differences_of_the_value(name, random_points):
    regularizer = CASES[name].regularizer
    width = 1e-6
    for seed in range(3):
        point = random_points(seed, DIMENSION)
        assert point.abs().min() > 10 * width
        differences = [
            (regularizer.value(point + width * axis) - regularizer.value(point - width * axis)) / (2 * width)
            for axis in torch.eye(DIMENSION, dtype=torch.float64)
        ]
        torch.testing.assert_close(regularizer.gradient(point), torch.stack(differences), rtol=0, atol=2e-9)


def test_the_subgradient_at_a_kink_is_zero_there():
    point = torch.tensor([0.0, -2.0], dtype=torch.float64)
    assert ElasticNet(l1=3.0, l2=0.5).gradient(point).tolist() == [0.0, -4.0]


def test_a_function_without_gradient_says_so():
    for name in (*INDICATORS, *RESTRICTED):
        regularizer = CASES[name].regularizer
        culprit = CULPRITS.get(name, type(regularizer).__name__)
        with pytest.raises(NotDifferentiableError, match=f"{culprit}.*proximal"):
            regularizer.gradient(torch.zeros(DIMENSION, dtype=torch.float64))


def test_the_missing_gradient_is_an_error_for_people():
    assert issubclass(NotDifferentiableError, DrobenchError)


@pytest.mark.parametrize("norm", ["l3", "L2", ""])
def test_unknown_norms_are_refused(norm):
    with pytest.raises(DrobenchError, match=r"NormCone\.norm must be l1, l2 or linf"):
        NormCone(norm)


class TestSingleBound:
    point = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)

    def test_the_smooth_part_and_the_interval_of_the_one_bounded_coordinate(self):
        slope = torch.tensor([0.7], dtype=torch.float64)
        regularizer = Blocks(2, ElasticNet(l2=0.3), Affine(slope, 0.5, Box(2.0, 4.0)))
        found = single_bound(regularizer, self.point)
        assert found is not None
        assert (found.place, found.lower, found.upper) == (2, 2.0, 4.0)
        # Inside the interval both are the same function.
        torch.testing.assert_close(found.smooth.value(self.point), regularizer.value(self.point))
        outside = torch.tensor([1.0, -2.0, 5.0], dtype=torch.float64)
        assert regularizer.value(outside).isinf()
        assert found.smooth.value(outside).isfinite()

    @pytest.mark.parametrize(
        "regularizer",
        [
            ElasticNet(l2=0.3),
            Box(-3.0, 3.0),
            Blocks(2, ElasticNet(l1=0.1), Box(0.0, math.inf)),
            Blocks(2, Box(-3.0, 3.0), Zero()),
            Box(-math.inf, math.inf),
            EuclideanBall(5.0),
        ],
        ids=["smooth", "three bounds", "a kink beside it", "two bounds", "no bound", "a ball"],
    )
    def test_anything_else_has_none(self, regularizer):
        assert single_bound(regularizer, self.point) is None
