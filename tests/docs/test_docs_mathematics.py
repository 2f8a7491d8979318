"""The numbers of `docs/mathematics.md`, recomputed, and the names in it, looked up."""

import math
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from drobench.objective.ambiguity_sets import Chi2Penalty, Chi2Variance, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.forms import Constrained, Constraints, FiniteSum, RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Margin, NoLosses
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.oracles.reference import ReferenceOracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows
from drobench.objective.wasserstein import WassersteinRisk
from drobench.problem.metrics import classification_errors
from drobench.reformulation.certificates import lower_bound
from drobench.reformulation.constraints import SmoothedConstraints
from drobench.reformulation.projection import project_euclidean
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.reformulation.wasserstein import WassersteinToComposite, literal_form, restore
from drobench.solver import SingleProcess
from drobench.solver.curvature import largest_curvature
from drobench.solver.estimators import advance, direction, refresh
from drobench.solver.smoothness import measure_smoothness
from drobench_plugins.datasets.synthetic import SyntheticConfig, load_synthetic_dataset
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig
from drobench_plugins.solvers.gcivr import Gcivr, GcivrState
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "mathematics.md").read_text()
ALONE = SingleProcess()


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def erratum(number: int) -> str:
    """The row of the table of errata."""
    rows = [line for line in DOCUMENT.splitlines() if line.startswith(f"| E{number} |")]
    assert len(rows) == 1
    return rows[0]


def paragraph(test: str) -> str:
    """The paragraph, in one line, that names a test."""
    found = [part for part in DOCUMENT.split("\n\n") if test in part and not part.startswith("| id")]
    assert len(found) == 1
    return " ".join(found[0].split())


def quotes(text: str, *numbers: str) -> bool:
    """Whether the text has the numbers, each as a word of its own, in this order."""
    pattern = r".*".join(rf"(?<![\w.+-]){re.escape(number)}(?![\w]|\.\d)" for number in numbers)
    return re.search(pattern, text) is not None


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def twenty() -> tuple[Tensor, Tensor]:
    """Twenty rows and signs given by formulas."""
    i = torch.arange(1, 21, dtype=torch.float64)[:, None]
    k = torch.arange(1, 4, dtype=torch.float64)
    signs = torch.where(torch.sin(3 * i[:, 0]) + 0.3 > 0, 1.0, -1.0).double()
    return torch.sin(i * k) + 0.5 * torch.cos(2 * i + k), signs


def transport(radius: float, flip_cost: float) -> WassersteinRisk:
    return WassersteinRisk(LinearMarginLosses(*twenty(), Margin()), radius, flip_cost, "l2", ElasticNet())


def robust(gamma: float, samples: int = 400) -> RobustRisk:
    """KL-robust logistic regression on random rows."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(samples, 5, generator=generator, dtype=torch.float64)
    truth = torch.randn(5, generator=generator, dtype=torch.float64)
    signs = torch.sign(rows @ truth + torch.randn(samples, generator=generator, dtype=torch.float64))
    return RobustRisk(LinearMarginLosses(rows, signs, LogisticLoss()), KLPenalty(gamma), ElasticNet(l2=1e-2))


def oracle_of(form: RobustRisk) -> CompositeOracle:
    return CompositeOracle(find_route(form, (Composite,), ReformulationConfig()).form, 0, form.losses.origin())


def solve(form) -> tuple[Tensor, Tensor | None]:
    """The reference solution and the adversary's reply."""
    start = torch.zeros(form.dimension, dtype=torch.float64)
    solver, oracle = ExactConvex(ExactConvexConfig()), ReferenceOracle(form, 0, start)
    state = solver.step(solver.init(start, oracle, ALONE), oracle, ALONE)
    return state.point, state.dual


def run(oracle: CompositeOracle, steps: int, **settings) -> GcivrState:
    solver = Gcivr(GcivrConfig(monotone=False, **settings))
    state = solver.init(torch.zeros(oracle.dimension, dtype=torch.float64), oracle, ALONE)
    for _ in range(steps):
        state = solver.step(state, oracle, ALONE)
    return state


def top_curvature(form: Composite, point: Tensor) -> float:
    step = 1e-6
    rows = [
        (form.smooth_gradient(point + step * axis) - form.smooth_gradient(point - step * axis)) / (2.0 * step)
        for axis in torch.eye(point.numel(), dtype=torch.float64)
    ]
    hessian = torch.stack(rows)
    return float(torch.linalg.eigvalsh(0.5 * (hessian + hessian.T))[-1])


class LinearConstraints(Constraints):
    """`slope_k x <= 0` for one number `x`."""

    dimension = 1

    def __init__(self, slopes: Tensor) -> None:
        self.slopes = slopes
        self.count = slopes.numel()
        self.features = slopes.new_zeros(self.count, 0)

    def surrogates(self, points, index):
        slopes = self.slopes[index]
        return points * slopes, lambda cotangents: (cotangents * slopes).sum(dim=-1, keepdim=True)

    def violations(self, points, index):
        return self.surrogates(points, index)[0]


def smoothed(slopes: Tensor, alpha: float, gamma: float) -> SmoothedConstraints:
    """The penalty alone, without objective."""
    objective = FiniteSum(NoLosses(double(0.0)), ElasticNet())
    return SmoothedConstraints(Constrained(objective, LinearConstraints(slopes)), alpha, gamma)


# The document and the tree


def test_every_erratum_is_there_once_and_in_order():
    numbers = [int(number) for number in re.findall(r"^\| E(\d+) \|", DOCUMENT, re.MULTILINE)]
    assert numbers == list(range(1, 26))


def test_every_row_of_the_table_has_five_cells():
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {6}


def test_every_test_named_exists():
    named = set(re.findall(r"\btest_\w+(?!\.py)\b", DOCUMENT)) - {"test_docs_mathematics"}
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(named) > 15
    assert {name for name in named if not any(f"def {name}(" in text for text in texts)} == set()


def test_every_path_named_exists():
    named = set(re.findall(r"\b(?:drobench|plugins|tests|docs)/[\w/]+\.py\b", DOCUMENT))
    assert len(named) > 10
    assert {path for path in named if not (ROOT / path).is_file()} == set()


def test_every_number_test_of_this_file_is_named_in_the_document():
    here = re.findall(r"^def (test_\w+)\(", Path(__file__).read_text(), re.MULTILINE)
    numeric = [
        name for name in here if not name.startswith("test_every_") and name != "test_quotes_finds_whole_numbers"
    ]
    assert {name for name in numeric if name not in DOCUMENT} == set()


def test_quotes_finds_whole_numbers():
    assert quotes("0, then 2.5 and 25.", "0", "2.5", "25")
    assert not quotes("250", "25")
    assert not quotes("-25", "25")
    assert not quotes("2.5", "2")
    assert not quotes("2.5", "5")
    assert not quotes("2 1", "1", "2")


# Sections


def test_variance_and_exact_form_coincide_only_above_the_spread():
    text = paragraph("test_variance_and_exact_form_coincide_only_above_the_spread")
    losses = double(0, 1, 2, 5)
    variance, exact = (
        [float(kind(gamma).worst_case(losses)) for gamma in (4.0, 0.5)] for kind in (Chi2Variance, Chi2Penalty)
    )
    assert variance[0] == pytest.approx(exact[0], abs=1e-14)
    assert quotes(text, f"{exact[0]:.4f}", f"{variance[1]:.4f}", f"{exact[1]:.4f}")
    assert float(losses.mean() - losses.min()) < 4.0
    assert variance[1] > losses.max()


def test_the_literal_form_is_worse_conditioned_than_the_reduced_one():
    text = paragraph("test_the_literal_form_is_worse_conditioned_than_the_reduced_one")
    form, widths = transport(0.1, 1.0), (0.1, 0.03, 0.01)
    point, _ = solve(form)
    joint = restore(form, point)
    reduced_point = joint[: form.dimension + 1]
    options = [
        (ReformulationConfig(gamma=width, wasserstein=kind)) for kind in ("literal", "reduced") for width in widths
    ]
    forms = [WassersteinToComposite().apply(form, option) for option in options]
    literal = [top_curvature(smooth, joint) for smooth in forms[:3]]
    reduced = [top_curvature(smooth, reduced_point) for smooth in forms[3:]]
    assert quotes(text, *(f"{value:.1f}" for value in literal + reduced))


@pytest.mark.parametrize(("alpha", "quoted"), [(1.5, "+0.0462"), (2.0, "0.0000"), (3.0, "-0.0231")])
def test_the_smoothed_solution_is_feasible_for_a_large_enough_weight(alpha, quoted):
    penalty = smoothed(double(1.0), alpha, 0.1)
    found = minimize_scalar(
        lambda x: float(penalty.value(double(x))) - x, bounds=(-1, 1), method="bounded", options={"xatol": 1e-9}
    ).x
    assert found == pytest.approx(0.1 / alpha * math.log(1.0 / (alpha - 1.0)), abs=1e-6)
    assert float(quoted) == pytest.approx(found, abs=5e-5)
    assert quoted in paragraph("test_the_smoothed_solution_is_feasible_for_a_large_enough_weight")


def test_restoration_removes_slack_and_projection_does_not():
    text = paragraph("test_restoration_removes_slack_and_projection_does_not")
    form = transport(0.1, 1.0)
    literal = literal_form(form)
    best = restore(form, solve(form)[0])
    loose = best.clone()
    loose[form.dimension + 1 :] += 0.05
    projected = project_euclidean(literal.constraints, loose)
    restored = restore(form, loose)
    assert torch.equal(projected, loose)
    assert torch.allclose(restored, best, rtol=0, atol=1e-12)
    values = [f"{float(literal.objective.value(point)):.4f}" for point in (projected, restored)]
    assert quotes(text, *values)


def test_the_certificate_of_the_wasserstein_problem_needs_the_multipliers():
    text = paragraph("test_the_certificate_of_the_wasserstein_problem_needs_the_multipliers")
    form = transport(0.1, 1.0)
    point, multipliers = solve(form)
    value = float(form.value(point))
    with_them, without = lower_bound(form, point, multipliers), lower_bound(form, point)
    assert with_them is not None
    assert without is not None
    assert -1e-12 <= value - with_them < 1e-9
    assert quotes(text, f"{value:.5f}", "1e-9", f"{value - without:.3f}")


# Errata


def test_e1_the_sign_of_the_variance():
    import cvxpy as cp

    losses, gamma = np.array([0.0, 1.0, 2.0, 5.0]), 4.0
    weights = cp.Variable(4)
    penalty = 2.0 * cp.sum_squares(weights - 0.25)
    problem = cp.Problem(cp.Maximize(weights @ losses - gamma * penalty), [weights >= 0, cp.sum(weights) == 1])
    solver = problem.solve(solver=cp.CLARABEL)
    correct = losses.mean() + losses.var() / (2.0 * gamma)
    printed = 1.0 - losses.var() / (2.0 * gamma)
    assert solver == pytest.approx(correct, abs=1e-7)
    assert quotes(erratum(1), f"{solver:.4f}", f"{correct:.4f}", f"{printed:.4f}")


def test_e2_a_squared_norm_constraint_admits_a_negative_price():
    form = transport(1.0, 0.5)
    literal = literal_form(form)
    price = -100.0
    slack = torch.full((20,), math.log(2.0) - price * form.flip_cost, dtype=torch.float64)
    joint = torch.cat([torch.zeros(3, dtype=torch.float64), double(price), slack])
    violations = literal.constraints.surrogates(joint[None], slice(None))[0]
    assert float(violations.max()) <= 1e-12
    # The squared constraint holds, the right one does not.
    assert float(joint[:3].square().sum()) - price**2 <= 0.0
    assert float(literal.constraints.cheap(joint[None])[0]) == 100.0
    optimum = float(form.value(solve(form)[0]))
    assert optimum == pytest.approx(math.log(2.0), abs=1e-9)
    assert quotes(erratum(2), f"{float(literal.objective.value(joint)):.1f}", f"{optimum:.3f}")


def test_e3_the_literal_form_has_two_constraints_per_sample_and_one_more():
    constraints = literal_form(transport(0.1, 1.0)).constraints
    assert constraints.dimension == 3 + 1 + 20
    assert quotes(erratum(3), str(constraints.count + constraints.cheap_count), "20")


def test_e4_without_a_step_size_the_update_diverges():
    centres, curvatures = double(1, 2, 3, 6), double(5, 8, 12, 15)
    assert float(curvatures.mean()) == 10.0
    quadratic = FunctionComposite(
        1, 4, 0, ElasticNet(), loss=lambda x, rows: 0.5 * curvatures[rows] * (x - centres[rows]) ** 2
    )
    minimiser = float(curvatures.dot(centres) / curvatures.sum())
    printed, correct = (
        abs(float(run(CompositeOracle(quadratic, 0, double(0.0)), 60, step_size=eta, batch=4).point) - minimiser)
        for eta in (1.0, 0.1)
    )
    assert 1e57 < printed < 1e58
    assert correct < 1e-12
    assert quotes(erratum(4), "10", "1e57", "0.1")


def test_e7_the_curvature_of_the_penalty_grows_like_one_over_gamma():
    found = []
    for gamma in (0.1, 0.01, 0.001):
        penalty, step = smoothed(double(1.0), 1.0, gamma), 1e-3 * gamma
        slopes = [float(penalty.smooth_gradient(double(sign * step))) for sign in (1.0, -1.0)]
        found.append((slopes[0] - slopes[1]) / (2.0 * step))
    assert found == pytest.approx([2.5, 25.0, 250.0], rel=1e-6)
    assert quotes(erratum(7), "2.5", "25", "250", "0.1", "0.01", "0.001")


def test_e8_the_printed_step_violates_its_own_lemma():
    ratios = []
    for spread in np.logspace(-3, 3, 601):
        for smoothness in (0.1, 1.0, 7.0):
            g0 = (spread * smoothness) ** 2
            printed = 4.0 / (smoothness + math.sqrt(smoothness**2 + 12.0 * g0))
            correct = 1.0 / (smoothness + math.sqrt(smoothness**2 + 3.0 * g0))
            best = 2.0 / (smoothness + 2.0 * math.sqrt(g0))
            assert 1.0 - 2.0 * smoothness * printed - 3.0 * g0 * printed**2 == pytest.approx(-3.0, abs=1e-9)
            assert 1.0 - 2.0 * smoothness * correct - 3.0 * g0 * correct**2 == pytest.approx(0.0, abs=1e-9)
            # The condition behind the best step, with Young's weight sqrt(G0).
            assert 1.0 / best - 0.5 * smoothness - math.sqrt(g0) == pytest.approx(0.0, abs=1e-9 / best)
            ratios.append(printed / best)
    assert max(ratios) == pytest.approx(4.0 / 3.0, abs=1e-4)
    assert quotes(erratum(8), "-3", "4/3")


def test_the_step_of_the_theorem_is_far_below_one_over_the_curvature():
    rows = load_synthetic_dataset(SyntheticConfig()).train
    losses = LinearMarginLosses(rows.features, 2.0 * rows.labels - 1.0, LogisticLoss())
    oracle = oracle_of(RobustRisk(losses, KLPenalty(1.0), ElasticNet(l2=1e-3)))
    start = torch.zeros(10, dtype=torch.float64)
    bound = measure_smoothness(oracle, ALONE, start).largest_step
    practice = 1.0 / largest_curvature(oracle, ALONE, start)
    assert round(practice / bound, -1) == 70.0
    text = paragraph("test_the_step_of_the_theorem_is_far_below_one_over_the_curvature")
    assert quotes(text, "10000", f"{bound:.3f}", f"{practice:.1f}", "seventy")


def test_e9_refreshes_must_see_all_rows():
    form = robust(1.0)
    optimum = float(form.value(solve(form)[0]))
    settings = {"step_size": 0.3, "epoch_length": 20, "batch": 20}
    small, full = (
        float(form.value(run(oracle_of(form), 1000, refresh_batch=rows, **settings).point)) - optimum
        for rows in (20, None)
    )
    assert small > 0.01
    assert abs(full) < 1e-12
    epochs = 5.0 / (math.sqrt(10000) * 0.1 * 1.0)
    assert quotes(erratum(9), "400", "20", "0.01", "1000", "1e-12", f"{epochs:.1f}", "10000")


def test_e10_calls_of_an_epoch_and_rounding_after_squaring():
    oracle = oracle_of(robust(1.0))
    run(oracle, 7, schedule="adaptive", step_size=0.1, growth=2.0, initial=5.0)
    printed = 7 * 7 + 7 * 7
    assert oracle.counters.sample_calls == 7 * 7 + 2 * 7 * 6
    assert quotes(erratum(10), "400", str(oracle.counters.sample_calls), str(printed))
    # An epoch whose batches have reached their limit is refreshed on all 1000 rows, not on 31 * 31.
    large = oracle_of(robust(1.0, samples=1000))
    state = run(large, 31, schedule="adaptive", step_size=0.1, growth=100.0)
    assert (state.sizes.length, state.sizes.batch) == (31, 31)
    assert large.counters.sample_calls == 1000 + 2 * 31 * 30
    assert quotes(erratum(10), "1000", str(math.floor(math.sqrt(1000)) ** 2))


def epochs_with_negative_inner_value(step_size: float) -> int:
    """Run eight epochs without any guard; an epoch ends where the estimate of a mean of exponentials turns negative."""
    oracle = oracle_of(robust(0.1))
    point = previous = torch.zeros(5, dtype=torch.float64)
    bad = 0
    for _ in range(8):
        estimates = refresh(oracle, ALONE, point, oracle.draw())
        for position in range(20):
            if position:
                estimates, _ = advance(estimates, oracle, ALONE, point, previous, oracle.draw(20))
                if float(estimates.inner_value) <= 0.0:
                    bad += 1
                    break
            previous, point = point, oracle.prox(point - step_size * direction(estimates, oracle), step_size)
    return bad


def test_e12_the_inner_value_leaves_the_domain_at_a_large_step():
    oracle = oracle_of(robust(0.1))
    assert largest_curvature(oracle, ALONE, torch.zeros(5, dtype=torch.float64)) == pytest.approx(1.0 / 0.3, rel=0.15)
    small, medium, large = (epochs_with_negative_inner_value(step_size) for step_size in (0.3, 1.0, 3.0))
    assert quotes(erratum(12), str(small), "0.3", "at least 3")
    # Beyond the limit the iterates are chaotic: rounding decides in how many epochs exactly.
    assert min(medium, large) >= 3


def test_e14_slack_constraints_have_short_subgradients():
    half = torch.randn(50, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    margins = LinearMarginLosses(torch.cat([half, -half]), torch.ones(100, dtype=torch.float64), Margin())
    constraints = literal_form(WassersteinRisk(margins, 0.1, 1.0, "l2", ElasticNet())).constraints
    # All losses exceed their slacks equally, and flipping does not pay: the first hundred are the active constraints.
    point = torch.cat([torch.zeros(3, dtype=torch.float64), double(1.0), torch.zeros(100, dtype=torch.float64)])
    values, pullback = constraints.surrogates(point[None], slice(None))
    active = values[0] >= values.max() - 1e-12
    assert active.tolist() == [True] * 100 + [False] * 100
    shortest = float(pullback((active.double() / 100.0)[None, None]).norm())
    assert shortest == pytest.approx(1.0 / math.sqrt(100), abs=1e-12)
    assert quotes(erratum(14), "100", f"{shortest:.1f}")


def test_e17_the_factor_in_front_of_the_logarithm_matters_with_a_regularizer():
    gamma = 0.1

    def risk(x: float) -> float:
        return float(KLPenalty(gamma).worst_case(double(0.5 * (x - 1.0) ** 2)))

    options = {"bounds": (-2, 2), "method": "bounded", "options": {"xatol": 1e-10}}
    correct = minimize_scalar(lambda x: risk(x) + 0.5 * x * x, **options).x
    printed = minimize_scalar(lambda x: risk(x) / gamma + 0.5 * x * x, **options).x
    assert quotes(erratum(17), f"{correct:.4f}", f"{printed:.4f}")


def test_e19_the_printed_complexity_hardly_falls_with_the_workers():
    m, condition = 10000, 100
    printed = [m + m / workers + condition * math.sqrt(m) for workers in (1, 16)]
    correct = [(m + condition * math.sqrt(m)) / workers for workers in (1, 16)]
    assert quotes(erratum(19), str(m), str(condition), *(f"{count:.0f}" for count in printed + correct))


def test_e22_the_extra_one_must_not_be_averaged_into_each_draw():
    terms = double(0.5, 1, 2, 4)
    penalty = smoothed(terms.log(), 1.0, 1.0)
    point = double(1.0)
    truth = math.exp(float(penalty.value(point)))
    assert truth == pytest.approx((1.0 + float(terms.sum())) / 5.0, abs=1e-14)
    draws = [torch.tensor(rows) for rows in combinations(range(4), 2)]
    shift = torch.zeros((), dtype=torch.float64)
    ours = [float(penalty.estimate(point[None], Rows(None, rows, covered=0.5), shift).inner_value) for rows in draws]
    biased = [(1.0 + float(terms[rows].sum())) / 3.0 for rows in draws]
    assert np.mean(ours) == pytest.approx(truth, abs=1e-14)
    assert quotes(erratum(22), *(f"{value:.4f}" for value in (truth, np.mean(ours), np.mean(biased))))


def test_e24_a_folded_error_hides_a_constant_classifier():
    labels = (torch.arange(1994) < 608).long()
    error = float(classification_errors(torch.ones(1994, dtype=torch.float64), labels).mean())
    assert quotes(erratum(24), f"{error:.3f}", "608", "1994", f"{min(error, 1.0 - error):.3f}", "0.1/500")
    multiplier = 0.1 / 500
    assert multiplier == pytest.approx(2e-4)
    assert quotes(erratum(24), "2e-4")


def test_e25_quadratic_growth_does_not_exclude_other_minima():
    points = np.linspace(-20.0, 20.0, 4001)
    assert np.all(points**2 + 10.0 * np.sin(points) ** 2 >= points**2)
    point = 3.0
    for _ in range(10000):
        point -= 0.01 * (2.0 * point + 10.0 * math.sin(2.0 * point))
    value = point**2 + 10.0 * math.sin(point) ** 2
    assert 2.0 + 20.0 * math.cos(2.0 * point) > 0.0
    assert quotes(erratum(25), f"{point:.4f}", f"{value:.4f}")
