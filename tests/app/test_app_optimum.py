"""The certified optimum: right where it is given, absent with a reason where nothing certifies it."""

import json

import numpy as np
import pytest
import scipy.special
import torch
from app_samples import catalogue_with, guest, with_solver

from drobench.app.loading import load_dataset
from drobench.app.optimum import RELATIVE_TOLERANCE, find_optimum
from drobench.objective.forms import FiniteSum, NativeForm, RobustRisk
from drobench.reformulation.certificates import lower_bound
from drobench.registry.models import model_of


def problem_of(config, catalogue):
    dataset = load_dataset(config, catalogue)
    return catalogue.problem(config.problem.name).entry.factory(
        config.problem, dataset, model_of(config.model, catalogue)
    )


@pytest.fixture
def optimum_of(configure, catalogue, tmp_path):
    """Find the optimum of the problem that the overrides describe."""

    def find(*words, using=catalogue, base=None, cache=tmp_path / "optima", instance=None):
        config = configure(*words, using=using, **({} if base is None else {"base": base}))
        return find_optimum(problem_of(config, using), instance or {"words": list(words)}, using, cache)

    return find


def design(config, catalogue):
    """Return features with a column of ones, and labels of -1 and 1, of the training rows."""
    train = load_dataset(config, catalogue).train
    ones = torch.ones(train.rows, 1, dtype=torch.float64)
    return torch.cat([train.features, ones], dim=1), 2.0 * train.labels.to(torch.float64) - 1.0


def newton_minimum(features, signs, gamma, l2):
    """Minimise KL-robust logistic loss by Newton's method with halving: formulas by hand, nothing of the project."""
    point = np.zeros(features.shape[1])

    def value(point):
        losses = np.logaddexp(0.0, -signs * (features @ point))
        return gamma * (scipy.special.logsumexp(losses / gamma) - np.log(len(signs))) + 0.5 * l2 * point @ point

    def derivatives(point):
        margins = signs * (features @ point)
        slopes = scipy.special.expit(-margins)
        weights = scipy.special.softmax(np.logaddexp(0.0, -margins) / gamma)
        robust = -features.T @ (weights * slopes * signs)
        curvature = weights * (slopes * (1.0 - slopes) + slopes**2 / gamma)
        hessian = (features.T * curvature) @ features - np.outer(robust, robust) / gamma
        return robust + l2 * point, hessian + l2 * np.eye(len(point))

    for _ in range(100):
        gradient, hessian = derivatives(point)
        direction = np.linalg.solve(hessian, gradient)
        step = 1.0
        while value(point - step * direction) > value(point) - 1e-4 * step * gradient @ direction and step > 1e-6:
            step /= 2.0
        point = point - step * direction
        if gradient @ direction < 1e-24:
            break
    assert np.linalg.norm(derivatives(point)[0]) < 1e-10
    return value(point)


@pytest.mark.parametrize(("gamma", "l2"), [(1.0, 1e-3), (0.5, 1e-2)])
@pytest.mark.convergence
def test_the_optimum_on_real_data_is_that_of_an_independent_method(configure, catalogue, optimum_of, gamma, l2):
    words = (f"problem.gamma={gamma}", f"problem.l2={l2}", "dataset=breast_cancer")
    features, signs = design(configure(*words, base=()), catalogue)
    assert features.shape == (341, 31)
    expected = newton_minimum(features.numpy(), signs.numpy(), gamma, l2)
    found = optimum_of(*words, base=())
    assert found.reason is None
    assert found.optimum.value == pytest.approx(expected, abs=1e-9)
    assert found.optimum.method == "exact_convex"
    certificate = found.optimum.certificate
    # A bound may lie above the value by a rounding error.
    assert -1e-14 <= found.optimum.value - certificate["lower_bound"] <= RELATIVE_TOLERANCE * abs(expected)
    assert certificate["lower_bound"] <= expected + 1e-12


@pytest.mark.convergence
def test_an_l1_part_is_certified_and_agrees_with_an_interior_point_solver(configure, catalogue, optimum_of):
    import cvxpy

    words = ("problem.l1=0.02", "problem.l2=0.05", "problem.gamma=0.7", "dataset.rows=80", "dataset.features=6")
    features, signs = (tensor.numpy() for tensor in design(configure(*words), catalogue))
    weights = cvxpy.Variable(features.shape[1])
    losses = cvxpy.logistic(cvxpy.multiply(-signs, features @ weights))
    robust = 0.7 * (cvxpy.log_sum_exp(losses / 0.7) - np.log(len(signs)))
    penalty = 0.02 * cvxpy.norm1(weights) + 0.025 * cvxpy.sum_squares(weights)
    program = cvxpy.Problem(cvxpy.Minimize(robust + penalty))
    program.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    # The case is worth something only if the l1 part has done its work.
    assert 0 < np.sum(np.abs(weights.value) < 1e-6) < len(weights.value)
    found = optimum_of(*words)
    assert found.optimum is not None, found.reason
    assert found.optimum.value == pytest.approx(program.value, abs=1e-8)


@pytest.mark.parametrize(
    "words",
    [
        ("problem.l1=0",),
        ("problem.l1=0.03",),
        ("problem.l1=0.03", "problem.l2=0"),
        ("problem=chi2_classification", "problem.variant=exact"),
        ("problem=cvar_classification", "problem.level=0.3"),
    ],
    ids=" ".join,
)
def test_the_bound_holds_at_any_point(configure, catalogue, optimum_of, words):
    """The certificate is only as good as its lower bound, which must hold whatever point it is computed from."""
    form = problem_of(configure(*words), catalogue).form
    optimum = optimum_of(*words).optimum.value
    generator = torch.Generator().manual_seed(5)
    useful = 0
    for scale in (0.0, 0.01, 0.1, 1.0, 5.0):
        for _ in range(10):
            point = scale * torch.randn(form.dimension, generator=generator, dtype=torch.float64)
            # Zeros are where an l1 part has many subgradients.
            point[torch.rand(form.dimension, generator=generator) < 0.4] = 0.0
            bound = lower_bound(form, point)
            assert bound is not None
            assert bound <= optimum + 1e-9
            assert float(form.value(point)) >= optimum - 1e-9
            useful += optimum - bound < 100 * abs(optimum)
    assert useful, "a bound that is always far too low certifies nothing"


def never(config):
    raise AssertionError("the reference solver must not be asked")


def test_an_optimum_is_computed_once(optimum_of, catalogue, tmp_path):
    first = optimum_of()
    assert len(list((tmp_path / "optima").iterdir())) == 1
    second = optimum_of(using=with_solver(catalogue, "exact_convex", factory=never))
    assert second == first
    assert second.optimum is not None


def test_an_optimum_is_not_taken_from_another_instance(optimum_of, catalogue):
    first = optimum_of(instance={"data": "a"})
    assert first.optimum is not None
    second = optimum_of("problem.gamma=0.2", instance={"data": "b"})
    assert second.optimum.value != first.optimum.value


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: '{"value": 0.1, "met',
        lambda content: "[1]",
        lambda content: json.dumps({**json.loads(content), "value": 0.5}),
        lambda content: json.dumps({"value": 0.5, "method": "exact_convex", "certificate": {}}),
    ],
    ids=["cut off", "another shape", "another number", "no checksum"],
)
def test_a_damaged_cache_is_not_the_end_of_a_run(optimum_of, tmp_path, damage):
    first = optimum_of()
    (file,) = (tmp_path / "optima").iterdir()
    sound = file.read_text()
    file.write_text(damage(sound))
    assert optimum_of() == first
    assert file.read_text() == sound


def test_the_cached_file_holds_value_method_and_certificate(optimum_of, tmp_path):
    found = optimum_of()
    (file,) = (tmp_path / "optima").iterdir()
    stored = json.loads(file.read_text())
    assert len(stored.pop("checksum")) == 64
    assert stored == {name: getattr(found.optimum, name) for name in ("value", "method", "certificate")}


def test_without_a_minimiser_there_is_no_value_but_a_reason(optimum_of, tmp_path):
    # Separable data and no regularizer: the loss falls for ever and no point attains its infimum.
    found = optimum_of("problem.l2=0", "dataset.noise=0")
    assert found.optimum is None
    assert "exact_convex" in found.reason
    assert not (tmp_path / "optima").exists()


def test_without_a_regularizer_a_value_is_right_or_not_given(configure, catalogue, optimum_of):
    words = ("problem.l2=0", "dataset.noise=3", "dataset.rows=120")
    features, signs = design(configure(*words), catalogue)
    expected = newton_minimum(features.numpy(), signs.numpy(), 1.0, 0.0)
    found = optimum_of(*words)
    if found.optimum is None:
        assert "problem.l2" in found.reason
    else:
        assert found.optimum.value == pytest.approx(expected, abs=1e-9)


def test_the_variance_form_is_certified_only_where_it_is_the_exact_one(optimum_of):
    words = ("problem=chi2_classification", "problem.l2=0.1")
    exact, same = (optimum_of(*words, "problem.gamma=5", f"problem.variant={name}") for name in ("exact", "variance"))
    assert same.optimum.value == pytest.approx(exact.optimum.value, abs=1e-9)
    # At a small price some weights would be negative: the variance form is above the exact one, and not convex.
    other = optimum_of(*words, "problem.gamma=0.01", "problem.variant=variance")
    assert other.optimum is None
    assert other.reason


@pytest.mark.parametrize("words", [("problem.loss=sigmoid",), ("model=mlp", "model.hidden=[2]")])
def test_what_is_not_convex_is_not_certified(optimum_of, catalogue, words):
    found = optimum_of(*words, using=with_solver(catalogue, "exact_convex", factory=never))
    assert found.optimum is None
    assert "not convex" in found.reason


def staying(state, oracle):
    return state.point


def becoming_nan(state, oracle):
    return state.point * float("nan")


@pytest.mark.parametrize("act", [staying, becoming_nan])
def test_a_wrong_reference_solver_is_not_believed(optimum_of, catalogue, tmp_path, act):
    wrong = guest("wrong", act)
    found = optimum_of(using=with_solver(catalogue, "exact_convex", factory=wrong.factory, config=wrong.config))
    assert found.optimum is None
    assert "exact_convex" in found.reason
    assert not (tmp_path / "optima").exists()


def raising(state, oracle):
    raise RuntimeError("the reference has no idea")


@pytest.mark.parametrize("act", [staying, raising])
def test_a_bad_reference_solver_does_not_stand_in_the_way_of_a_good_one(optimum_of, act):
    expected = optimum_of()
    bad = guest("a_bad_reference", act, accepts=(RobustRisk,), exact=True)
    found = optimum_of(using=catalogue_with(solvers=(bad,)), instance={"another": 1})
    assert found.optimum.method == "exact_convex"
    assert found.optimum.value == pytest.approx(expected.optimum.value, abs=1e-12)


def test_a_relaxation_is_no_reference(optimum_of, catalogue):
    found = optimum_of(using=with_solver(catalogue, "exact_convex", accepts=(FiniteSum,)))
    assert found.optimum is None
    assert "exact_convex" in found.reason


def test_without_any_reference_solver_the_reason_says_so(optimum_of, catalogue):
    without = with_solver(with_solver(catalogue, "exact_convex", exact=False), "exact_constrained", exact=False)
    found = optimum_of(using=without)
    assert found.optimum is None
    assert "no exact reference solver" in found.reason


class Wrapped(NativeForm):
    """A form that drobench does not know: a robust risk under another name."""

    def __init__(self, risk):
        self.risk, self.dimension, self.regularizer = risk, risk.dimension, risk.regularizer

    samples = property(lambda self: self.risk.samples)
    convex = property(lambda self: self.risk.convex)

    def value(self, point):
        return self.risk.value(point)

    def smooth_gradient(self, point):
        return self.risk.smooth_gradient(point)


class Bounded(Wrapped):
    def lower_bound(self, point, dual=None):
        return lower_bound(self.risk, point, dual)


@pytest.mark.parametrize("form", [Wrapped, Bounded])
def test_an_own_form_is_certified_by_its_own_bound_and_not_without(form, configure, catalogue, tmp_path):
    problem = problem_of(configure(), catalogue)
    known = find_optimum(problem, {"form": "known"}, catalogue, tmp_path).optimum
    exact = catalogue.solver("exact_convex").entry.factory

    class Unwrapping(exact):
        def _solve(self, wrapped, start):
            return super()._solve(wrapped.risk, start)

    using = with_solver(catalogue, "exact_convex", factory=Unwrapping, accepts=(Wrapped,))
    problem.form = form(problem.form)
    found = find_optimum(problem, {"form": form.__name__}, using, tmp_path)
    if form is Bounded:
        assert found.optimum.value == known.value
        assert found.optimum.certificate == known.certificate
    else:
        assert found.optimum is None
        assert "a Wrapped can bring its own `lower_bound`" in found.reason
