"""Cressie-Read, total variation, spectral risks and smoothed CVaR: certified optima, and methods that reach them."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from drobench import run
from drobench.app.optimum import find_optimum
from drobench.data.build import build_dataset
from drobench.data.dataset import DatasetConfig
from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import Chi2Penalty, CVaR, KLBall
from drobench.objective.divergence_prices import DivergencePrice
from drobench.objective.forms import RobustRisk
from drobench.objective.predictor import ModelConfig
from drobench.objective.regularizers import ElasticNet
from drobench.registry import load_catalogue
from drobench_plugins.solvers import exact_convex

CATALOGUE = load_catalogue()
PROBLEMS = {
    "cressie_read_ball": ("cressie_read", {"order": 1.5, "radius": 0.4}),
    "cressie_read_steep": ("cressie_read", {"order": 3.0, "radius": 0.4}),
    "cressie_read_penalty": ("cressie_read", {"variant": "penalty", "order": 1.5, "gamma": 0.4}),
    "cressie_read_steep_penalty": ("cressie_read", {"variant": "penalty", "order": 3.0, "gamma": 0.4}),
    "total_variation": ("total_variation", {"radius": 0.15}),
    "spectral": ("spectral", {"levels": [0.2, 1.0], "shares": [0.6, 0.4]}),
    "cvar_kl": ("cvar", {"variant": "kl", "level": 0.3}),
    "cvar_chi2": ("cvar", {"variant": "chi2", "level": 0.3}),
    "cvar_entropic": ("cvar", {"variant": "entropic", "level": 0.8}),
}
LOSSES = {"classification": ("logistic", "hinge"), "regression": ("squared", "absolute")}
CASES = [(kind, task, loss) for kind in PROBLEMS for task, losses in LOSSES.items() for loss in losses]


@pytest.fixture(scope="module")
def datasets():
    generator = np.random.default_rng(0)
    features = generator.standard_normal((50, 3))
    scores = features @ [1.0, -0.5, 0.2]
    config = DatasetConfig(split=[0.8, 0.0, 0.2], standardize=False)
    targets = {"targets": scores + generator.standard_t(3, 50)}
    return {
        "classification": build_dataset(
            "c", features, (scores + generator.standard_normal(50) > 0).astype(int), config
        ),
        "regression": build_dataset("r", features, None, config, columns=targets),
    }


def posed(kind, task, datasets, **settings):
    family, own = PROBLEMS[kind]
    entry = CATALOGUE.problem(f"{family}_{task}").entry
    return entry.factory(entry.config(**{**own, "l2": 0.05, **settings}), datasets[task], ModelConfig())


@pytest.mark.parametrize(("kind", "task", "loss"), CASES, ids="-".join)
def test_every_optimum_is_certified_and_no_point_is_below(kind, task, loss, datasets, tmp_path):
    problem = posed(kind, task, datasets, loss=loss)
    assert problem.form.convex
    found = find_optimum(problem, {"kind": kind, "task": task, "loss": loss}, CATALOGUE, tmp_path)
    assert found.optimum is not None, found.reason
    assert found.optimum.certificate["gap"] <= 1e-6 * found.optimum.value
    assert found.optimum.certificate["gap"] >= -1e-9 * found.optimum.value
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    assert min(float(problem.form.value(point)) for point in points) >= found.optimum.value


@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_optimum_is_that_of_a_search_on_the_definition(kind, datasets, tmp_path):
    """By a simplex search, which uses the worst case alone, and neither gradients nor conjugates."""
    problem = posed(kind, "classification", datasets)
    found = find_optimum(problem, {"kind": kind}, CATALOGUE, tmp_path)

    def value(at):
        return float(problem.form.value(torch.from_numpy(at)))

    point = np.zeros(4)
    for _ in range(3):
        searched = minimize(value, point, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
        point = searched.x
    assert found.optimum.value == pytest.approx(searched.fun, rel=1e-6)


@pytest.mark.parametrize("kind", ["spectral", "total_variation"])
def test_many_samples_are_solved_without_cones(kind, datasets, tmp_path, monkeypatch):
    """The same optimum as that of the conic program, from the smoothed problem."""
    problem = posed(kind, "classification", datasets)
    conic = find_optimum(problem, {"kind": kind}, CATALOGUE, tmp_path / "conic").optimum
    monkeypatch.setattr(exact_convex, "MOST_CONIC_SAMPLES", 10)
    smooth = find_optimum(problem, {"kind": kind}, CATALOGUE, tmp_path / "smooth")
    assert smooth.optimum is not None, smooth.reason
    assert smooth.optimum.value == pytest.approx(conic.value, rel=2e-6)


def test_a_strangers_conjugate_gets_an_optimum(datasets, tmp_path):
    """Smooth, and with kinks: both certified by nothing but the conjugate."""

    class Smooth(DivergencePrice):
        def conjugate(self, excess):
            slopes = (1.0 + excess).clamp(min=0.0)
            return 0.5 * slopes.square() - 0.5, slopes

    class Kinked(DivergencePrice):
        slopes = "jump"
        largest_ratio = 4.0

        def conjugate(self, excess):
            return 4.0 * excess.clamp(min=0.0), 4.0 * (excess > 0.0).to(excess.dtype)

    for mine, known in ((Smooth(), Chi2Penalty(1.0)), (Kinked(), CVaR(0.25))):
        problem = posed("spectral", "classification", datasets)
        values = []
        for ambiguity in (mine, known):
            problem.form = RobustRisk(problem.form.losses, ambiguity, ElasticNet(0.0, 0.05))
            found = find_optimum(problem, {"ambiguity": type(ambiguity).__name__}, CATALOGUE, tmp_path)
            assert found.optimum is not None, found.reason
            values.append(found.optimum.value)
        assert values[0] == pytest.approx(values[1], rel=1e-6)


def solved(kind, task, solver, folder, *words):
    family, settings = PROBLEMS[kind]
    own = [f"problem.{name}={value}" for name, value in settings.items()]
    return run(f"problem={family}_{task}", *own, f"solver={solver}", *words, results=str(folder))


SMALL = (
    "dataset=synthetic",
    "dataset.rows=150",
    "dataset.features=3",
    "dataset.conditioning=well",
    "problem.l2=0.05",
    "budget.passes=40",
)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_gcivr_runs_on_it(kind, tmp_path):
    record = solved(kind, "classification", "gcivr", tmp_path, *SMALL)
    assert record.optimum is not None, record.optimum_reason
    assert record.status == "budget_spent"
    assert record.iterates.last.gap >= -1e-8
    if kind != "total_variation":
        # Its largest loss is smoothed so little in the end that 40 passes are few.
        assert record.iterates.last.gap < 0.25 * (np.log(2.0) - record.optimum.value)


def test_a_method_of_curvature_comes_near_the_optimum_under_total_variation(tmp_path):
    record = solved("total_variation", "classification", "newton", tmp_path, *SMALL)
    assert 0.0 <= record.iterates.last.gap < 0.1 * (np.log(2.0) - record.optimum.value)


@pytest.mark.parametrize("kind", ["cressie_read_penalty", "cvar_kl", "cvar_chi2", "cressie_read_ball"])
def test_newton_reaches_the_certified_optimum(kind, tmp_path):
    words = ("dataset=diabetes", "budget.passes=80", "problem.l2=0.1")
    assert solved(kind, "regression", "newton", tmp_path, *words).iterates.last.gap <= 1e-6


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("cressie_read_classification", {"order": 1.0}, "must be above 1"),
        ("cressie_read_classification", {"variant": "cube"}, "variant"),
        ("cressie_read_regression", {"radius": -1.0}, "radius"),
        ("cressie_read_regression", {"gamma": 0.0}, "gamma"),
        ("cressie_read_regression", {"loss": "logistic"}, "losses of regression"),
        ("total_variation_classification", {"radius": 1.5}, "radius"),
        ("spectral_classification", {"levels": [0.1]}, "one share for each"),
        ("spectral_regression", {"shares": [0.5, 0.5, 0.5]}, "sum to 1"),
        ("cvar_classification", {"variant": "cube"}, "variant"),
        ("cvar_regression", {"gamma": 0.0}, "gamma"),
    ],
)
def test_what_makes_no_sense_is_refused(name, settings, message):
    with pytest.raises(SettingError, match=message):
        CATALOGUE.problem(name).entry.config(**settings)


def test_the_entropic_variant_is_a_ball_around_cvar():
    config = CATALOGUE.problem("cvar_classification").entry.config(level=0.2, variant="entropic")
    assert config.ambiguity() == KLBall(-np.log(0.2))
    losses = torch.from_numpy(np.random.default_rng(0).gamma(1.0, 1.0, 200))
    exact = CATALOGUE.problem("cvar_classification").entry.config(level=0.2).ambiguity()
    assert float(exact.worst_case(losses)) <= float(config.ambiguity().worst_case(losses)) <= float(losses.max())
