"""Group DRO and stochastic AFL: their steps in numpy, their optima, their draws; and others on the same problem."""

import numpy as np
import pytest
import torch

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import CVaR, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import GroupedMinMax, MinMax, RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.reference import ReferenceOracle
from drobench.objective.regularizers import ElasticNet
from drobench.reformulation.certificates import lower_bound
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench_plugins.solvers import agnostic_fl, group_dro
from drobench_plugins.solvers.agnostic_fl import AgnosticFl, AgnosticFlConfig
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.group_dro import GroupDro, GroupDroConfig
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig
from drobench_plugins.solvers.primal_dual import PrimalDual, PrimalDualConfig
from drobench_plugins.solvers.serr import Serr, SerrConfig
from drobench_plugins.solvers.sevr import Sevr, SevrConfig

ROWS, PARAMETERS, L2 = 90, 4, 0.02
ALONE = SingleProcess()
VARIANTS = {"worst": CVaR(1.0 / 3.0), "penalty": KLPenalty(0.1)}


@pytest.fixture(scope="module")
def groups():
    return torch.from_numpy(np.random.default_rng(1).choice(3, ROWS, p=[0.6, 0.25, 0.15]))


@pytest.fixture(scope="module")
def losses(groups):
    """Labels that follow another direction in each group, so that no point suits everybody best."""
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(ROWS, PARAMETERS))
    slopes = np.array([[3.0, 0.0, 0.5, 0.0], [1.0, 2.0, 0.0, 0.5], [1.5, 1.0, 2.0, 0.0]])[groups.numpy()]
    signs = np.sign((rows * slopes).sum(axis=1) + 0.5 * generator.normal(size=ROWS))
    return LinearMarginLosses(torch.from_numpy(rows), torch.from_numpy(signs), LogisticLoss())


@pytest.fixture
def risk(losses, groups):
    def make(variant="worst"):
        return RobustRisk(losses, GroupAdversary(groups, VARIANTS[variant]), ElasticNet(l2=L2))

    return make


def optimum(form):
    """The optimal value, with a lower bound that proves it."""
    start = form.losses.origin()
    solver, oracle = ExactConvex(ExactConvexConfig()), ReferenceOracle(form, 0, start)
    state = solver.step(solver.init(start, oracle, ALONE), oracle, ALONE)
    value = float(form.value(state.point))
    assert value - lower_bound(form, state.point, state.dual) < 1e-8
    return value


def oracle_of(form, seed=0, accepted=(GroupedMinMax,)):
    route = find_route(form, accepted, ReformulationConfig())
    return route, build_oracle(route.form, seed, route.lift(form.losses.origin()))


def run(solver, form, steps, seed=0, accepted=(GroupedMinMax,)):
    route, oracle = oracle_of(form, seed, accepted)
    with torch.no_grad():
        state = solver.init(route.lift(form.losses.origin()), oracle, ALONE)
        for _ in range(steps):
            state = solver.step(state, oracle, ALONE)
    return route.recover(solver.solution(state)), state, oracle


def relative_gap(form, point):
    best = optimum(form)
    return (float(form.value(point)) - best) / (float(form.value(form.losses.origin())) - best)


SOLVERS = {
    "group_dro": GroupDro(GroupDroConfig(batch=30)),
    "group_dro_uniform": GroupDro(GroupDroConfig(stratified=False, batch=45)),
    "agnostic_fl": AgnosticFl(AgnosticFlConfig(batch=10)),
    "agnostic_fl_weighted": AgnosticFl(AgnosticFlConfig(gradient="weighted", batch=45)),
    "primal_dual": PrimalDual(PrimalDualConfig(batch=45, adversary_step=0.01)),
    "serr": Serr(SerrConfig(batch=45, step_size=0.2)),
    "sevr": Sevr(SevrConfig()),
}


@pytest.mark.convergence
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", SOLVERS)
def test_saddle_solvers_reach_the_certified_optimum(name, variant, risk):
    form = risk(variant)
    point, _, _ = run(SOLVERS[name], form, 2000, accepted=(MinMax,))
    # A kink is approached more slowly.
    assert -1e-9 <= relative_gap(form, point) < {"worst": 2e-2, "penalty": 5e-4}[variant]


@pytest.mark.convergence
@pytest.mark.parametrize(("variant", "goal"), [("worst", 1e-2), ("penalty", 1e-5)])
def test_gcivr_reaches_it_through_the_composite(variant, goal, risk):
    form = risk(variant)
    route = find_route(form, (Composite,), ReformulationConfig())
    point, solver = form.losses.origin(), Gcivr(GcivrConfig())
    with torch.no_grad():
        for stage in route.stages:
            oracle = build_oracle(stage, 0, point)
            state = solver.init(point, oracle, ALONE)
            while oracle.passes < 100:
                state = solver.step(state, oracle, ALONE)
            point = solver.solution(state)
    assert -1e-9 <= relative_gap(form, point) < goal


def logistic(form, point, index):
    signed = form.losses.signed_rows.numpy()[index]
    margins = signed @ point
    return np.logaddexp(0.0, -margins), -signed / (1.0 + np.exp(margins))[:, None]


def all_rows_by_group(form, point):
    """Group means and their gradients."""
    groups = form.ambiguity.groups.numpy()
    parts = [logistic(form, point, groups == group) for group in range(3)]
    return np.array([losses.mean() for losses, _ in parts]), np.stack([slopes.mean(axis=0) for _, slopes in parts])


@pytest.mark.parametrize("variant", VARIANTS)
def test_group_dro_raises_the_weights_first_and_then_descends_with_the_new_ones(variant, risk, groups):
    form = risk(variant)
    config = GroupDroConfig(step_size=0.7, adversary_step=0.4, delay=None, batch=3 * ROWS, adjustment=0.5)
    _, state, _ = run(GroupDro(config), form, 5)
    x, q, gamma = np.zeros(PARAMETERS), np.full(3, 1 / 3), {"worst": 0.0, "penalty": 0.1}[variant]
    sizes = np.bincount(groups.numpy())
    for _ in range(5):
        losses, slopes = all_rows_by_group(form, x)
        q = (q * np.exp(0.4 * (losses + 0.5 / np.sqrt(sizes)))) ** (1.0 / (1.0 + 0.4 * gamma))
        q /= q.sum()
        x = x - 0.7 * (q @ slopes + L2 * x)
    np.testing.assert_allclose(state.joint.numpy(), np.concatenate([x, q]), rtol=1e-10)


def project_on_simplex(point):
    """By bisection on the shift."""
    low, high = point.min() - 1.0, point.max()
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(point - middle, 0.0).sum() > 1.0 else (low, middle)
    return np.maximum(point - high, 0.0)


def test_agnostic_fl_moves_both_from_the_same_point_and_projects(risk):
    form = risk("worst")
    config = AgnosticFlConfig(step_size=0.7, client_step=0.6, delay=3, batch=ROWS)
    _, state, _ = run(AgnosticFl(config), form, 6)
    x, q = np.zeros(PARAMETERS), np.full(3, 1 / 3)
    for k in range(6):
        losses, slopes = all_rows_by_group(form, x)
        decay = (1.0 + k / 3) ** -0.5
        x, q = x - 0.7 * decay * (q @ slopes + L2 * x), project_on_simplex(q + 0.6 * decay * losses)
    np.testing.assert_allclose(state.joint.numpy(), np.concatenate([x, q]), atol=1e-10)


def test_the_weighted_estimate_is_unbiased(risk):
    form = risk("penalty")
    route, oracle = oracle_of(form)
    joint = torch.cat([torch.tensor([0.5, -0.2, 0.1, 0.3]), torch.tensor([0.2, 0.3, 0.5])]).double()
    solver = AgnosticFl(AgnosticFlConfig(gradient="weighted", batch=4))
    draws = torch.stack([solver._weighted(joint, oracle, ALONE) for _ in range(1500)])
    deviations = draws.std(0) / 1500**0.5
    exact = route.form.operator(joint, oracle.draw())
    assert float(((draws.mean(0) - exact) / deviations).abs().max()) < 4.5


@pytest.mark.parametrize(
    ("solver", "calls"),
    [
        (GroupDro(GroupDroConfig(batch=8)), 6),
        (GroupDro(GroupDroConfig(batch=2)), 3),
        (GroupDro(GroupDroConfig(batch=8, stratified=False)), 8),
        (GroupDro(GroupDroConfig(batch=3000, replacement=True)), 3000),
        (GroupDro(GroupDroConfig(batch=3000)), ROWS),
        (AgnosticFl(AgnosticFlConfig(batch=2)), 6),
        (AgnosticFl(AgnosticFlConfig(batch=5, gradient="weighted")), 10),
    ],
)
def test_a_step_costs_what_the_entry_declares(solver, calls, risk):
    _, _, oracle = run(solver, risk(), 3)
    assert oracle.counters.sample_calls == 3 * calls
    declared = (group_dro if isinstance(solver, GroupDro) else agnostic_fl).entry().calls_per_step
    assert declared(solver.config, oracle) == {calls}
    assert oracle.counters.projections == 3


def test_the_adjustment_draws_weight_to_small_groups(risk, groups):
    form = risk("penalty")
    smallest = int(torch.bincount(groups).argmin())
    weights = [
        run(GroupDro(GroupDroConfig(batch=3 * ROWS, adjustment=adjustment)), form, 200)[1].joint[PARAMETERS + smallest]
        for adjustment in (0.0, 1.0)
    ]
    assert weights[1] > weights[0] + 0.05


def test_one_group_makes_group_dro_gradient_descent(risk):
    form = risk()
    alone = RobustRisk(form.losses, GroupAdversary(torch.zeros(ROWS, dtype=torch.int64), CVaR(1.0)), form.regularizer)
    config = GroupDroConfig(step_size=0.7, delay=None, batch=ROWS, output="last")
    point, _, _ = run(GroupDro(config), alone, 10)
    x = np.zeros(PARAMETERS)
    for _ in range(10):
        _, slopes = logistic(form, x, slice(None))
        x = x - 0.7 * (slopes.mean(axis=0) + L2 * x)
    np.testing.assert_allclose(point.numpy(), x, rtol=1e-12)


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (GroupDroConfig, {"step_size": 0.0}),
        (GroupDroConfig, {"output": "best"}),
        (GroupDroConfig, {"adjustment": -1.0}),
        (AgnosticFlConfig, {"gradient": "mean"}),
        (AgnosticFlConfig, {"batch": 0}),
    ],
)
def test_impossible_settings_are_refused(config, settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        config(**settings)
