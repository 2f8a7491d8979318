"""Multiplier networks: against torch's modules and optimizers step by step, and their settings."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from constrained_samples import Fairness, HalfSpaces, drawn, projection_problem, reference_run, run
from torch import nn

from drobench.errors import SettingError
from drobench.objective.forms import Constrained
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.regularizers import ElasticNet
from drobench.registry import SolverEntry
from drobench_plugins.solvers.heavily_constrained import HeavilyConstrained, HeavilyConstrainedConfig, entry

STEPS = 40
NETWORKS = {
    "linear": {"hidden": []},
    "relu": {"hidden": [5, 4], "activation": "relu"},
    "tanh_two_outputs": {"hidden": [6], "activation": "tanh", "outputs": 2},
    "linear_normalised": {"hidden": [], "normalise_features": True},
}


def network_of(settings, parameters) -> nn.Sequential:
    """Return torch's own network with the given flat parameters: layer by layer, weights before biases."""
    sizes = [3, *settings["hidden"], settings.get("outputs", 1)]
    layers = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU() if settings.get("activation") == "relu" else nn.Tanh()]
    network = nn.Sequential(*layers[:-1]).double()
    nn.utils.vector_to_parameters(parameters.clone(), network.parameters())
    return network


def flat(path):
    """Return theta and the flat parameters of the network in each step of a reference run."""
    return [(theta, torch.cat([part.flatten() for part in parts])) for theta, *parts in path]


def assert_path(states, path):
    for state, (theta, parameters) in zip(states[1:], path, strict=True):
        torch.testing.assert_close(state.point, theta, rtol=0, atol=1e-11)
        torch.testing.assert_close(state.multipliers.parameters, parameters, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("batch", "constraint_batch", "dual_rates"), [(None, None, True), (6, 2, True), (None, 3, False)]
)
def test_steps_are_those_of_torch(name, batch, constraint_batch, dual_rates):
    settings = NETWORKS[name]
    problem = Fairness(ElasticNet(l2=0.1))
    config = HeavilyConstrainedConfig(
        **settings, dual_scale=2.0, batch=batch, constraint_batch=constraint_batch, dual_rates=dual_rates
    )
    states = run(HeavilyConstrained(config), problem.oracle(8), problem.start, STEPS)
    first = states[0].multipliers.parameters
    network = network_of(settings, first)
    theta = problem.start.clone().requires_grad_(True)
    variables = [theta, *network.parameters()]
    features, outputs = problem.group_features, settings.get("outputs", 1)
    if settings.get("normalise_features"):
        features = (features - features.mean(dim=0)) / features.std(dim=0, correction=0)
    weights = sum(part.numel() for part in network.parameters() if part.dim() == 2)
    path = reference_run(
        problem,
        lambda k: network(features[k])[k % outputs].abs(),
        variables,
        torch.optim.Adagrad(variables, 0.1, initial_accumulator_value=0.1, eps=1e-7),
        drawn(8, STEPS, 40, batch, 7, constraint_batch, skip=weights),
        dual_scale=2.0,
        dual_rates=dual_rates,
        penalty=lambda x: 0.05 * x.square().sum(),
    )
    assert_path(states, flat(path))
    assert float((states[-1].multipliers.parameters - first).abs().max()) > 0.05


@pytest.mark.parametrize("constraint_batch", [None, 3])
def test_the_broadcast_defect_sums_a_matrix(constraint_batch):
    problem = Fairness()
    config = HeavilyConstrainedConfig(broadcast_defect=True, dual_scale=2.0, constraint_batch=constraint_batch)
    states = run(HeavilyConstrained(config), problem.oracle(8), problem.start, STEPS)
    network = network_of({"hidden": []}, states[0].multipliers.parameters)
    theta = problem.start.clone().requires_grad_(True)
    variables = [theta, *network.parameters()]
    optimizer = torch.optim.Adagrad(variables, 0.1, initial_accumulator_value=0.1, eps=1e-7)
    path = []
    for _, groups in drawn(8, STEPS, 40, None, 7, constraint_batch, skip=3):
        optimizer.zero_grad()
        column = network(problem.group_features[groups]).abs()
        proxies = torch.stack([problem.proxy(theta, group) for group in groups])
        rates = torch.tensor([problem.rate(theta, group) for group in groups], dtype=torch.float64)
        matrix = problem.loss(theta) + column.detach() * proxies - 2.0 * column * rates
        assert matrix.shape == (len(groups), len(groups))
        matrix.sum().backward()
        optimizer.step()
        path.append([variable.detach().clone() for variable in variables])
    assert_path(states, flat(path))


def test_the_defect_is_none_with_one_constraint_in_a_step():
    problem = Fairness()
    paths = [
        run(
            HeavilyConstrained(HeavilyConstrainedConfig(constraint_batch=1, broadcast_defect=defect)),
            problem.oracle(),
            problem.start,
            STEPS,
        )
        for defect in (False, True)
    ]
    torch.testing.assert_close(paths[0][-1].point, paths[1][-1].point, rtol=0, atol=1e-13)


class TestStart:
    def test_is_uniform_within_the_bounds_of_each_layer_with_last_biases_one(self):
        problem = Fairness()
        config = HeavilyConstrainedConfig(hidden=[50, 20], outputs=2)
        parameters = run(HeavilyConstrained(config), problem.oracle(), problem.start, 0)[0].multipliers.parameters
        assert parameters.shape == (3 * 50 + 50 + 50 * 20 + 20 + 20 * 2 + 2,)
        parts = parameters.split([150, 50, 1000, 20, 40, 2])
        for weights, size in zip(parts[::2], (53, 70, 22), strict=True):
            bound = math.sqrt(6.0 / size)
            assert 0.85 * bound < float(weights.abs().max()) <= bound
            assert abs(float(weights.mean())) < 0.2 * bound
        assert [part.unique().tolist() for part in parts[1::2]] == [[0.0], [0.0], [1.0]]

    def test_depends_on_the_seed_of_the_oracle_alone(self):
        problem, solver = Fairness(), HeavilyConstrained(HeavilyConstrainedConfig())
        first, again, other = (
            run(solver, problem.oracle(seed), problem.start, 0)[0].multipliers.parameters for seed in (1, 1, 2)
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    def test_without_features_is_one_multiplier_of_one(self):
        form = projection_problem([[1.0, 1.0]], [2.0], [2.0, 2.0])
        form = Constrained(
            form.objective, HalfSpaces(torch.ones(1, 2).double(), torch.tensor([2.0]).double(), torch.zeros(1, 0))
        )
        start = torch.zeros(2, dtype=torch.float64)
        config = HeavilyConstrainedConfig(optimizer="sgd", normalise_features=True)
        states = run(HeavilyConstrained(config), ConstrainedOracle(form, 0, start), start, 500)
        assert states[0].multipliers.parameters.tolist() == [1.0]
        torch.testing.assert_close(states[-1].point, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-9)
        assert float(states[-1].multipliers.parameters[0]) == pytest.approx(1.0, abs=1e-9)

    def test_normalising_leaves_constant_features_alone(self):
        problem = Fairness()
        problem.form.constraints.features = torch.cat([problem.group_features, torch.full((7, 1), 0.1).double()], dim=1)
        config = HeavilyConstrainedConfig(normalise_features=True)
        state = run(HeavilyConstrained(config), problem.oracle(), problem.start, 2)[-1].multipliers
        assert float(state.width[3]) == 1.0
        torch.testing.assert_close(state.width[:3], problem.group_features.std(dim=0, correction=0))
        torch.testing.assert_close(state.centre[:3], problem.group_features.mean(dim=0))

    def test_keeps_the_precision_of_the_point(self):
        problem = Fairness()
        oracle = ConstrainedOracle(problem.form, 0, problem.start.float())
        solver = HeavilyConstrained(HeavilyConstrainedConfig(hidden=[4]))
        assert run(solver, oracle, problem.start.float(), 0)[0].multipliers.parameters.dtype == torch.float32


@pytest.mark.convergence
def test_a_linear_model_of_one_hot_features_reaches_the_saddle_point_of_separate_multipliers():
    normals, bounds = [[1.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], [2.0, 5.0, 0.0]
    form = projection_problem(normals, bounds, [2.0, 2.0])
    form.constraints.features = torch.eye(3, dtype=torch.float64)
    start = torch.zeros(2, dtype=torch.float64)
    state = run(HeavilyConstrained(HeavilyConstrainedConfig()), ConstrainedOracle(form, 0, start), start, 3000)[-1]
    torch.testing.assert_close(state.point, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-2)
    parameters = state.multipliers.parameters
    np.testing.assert_allclose((parameters[:3] + parameters[3]).abs().numpy(), [1.0, 0.0, 0.0], rtol=0, atol=1e-2)


def test_without_accumulator_adagrad_does_not_see_the_dual_scale():
    problem = Fairness()
    ends = [
        run(
            HeavilyConstrained(HeavilyConstrainedConfig(accumulator=0.0, epsilon=0.0, dual_scale=scale)),
            problem.oracle(),
            problem.start,
            STEPS,
        )[-1].point
        for scale in (1.0, 16.0)
    ]
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-12)


def test_entry():
    found = entry()
    assert isinstance(found, SolverEntry)
    assert (found.name, found.accepts) == ("heavily_constrained", (Constrained,))
    assert isinstance(found.factory(found.config()), HeavilyConstrained)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "gelu"}, "activation must be one of relu, tanh; found 'gelu'"),
        ({"outputs": 0}, "outputs must be a finite number above 0"),
        ({"outputs": -2}, "outputs must be a finite number above 0"),
        ({"hidden": [5, 0]}, r"hidden must hold widths of at least 1; found \[5, 0\]"),
        ({"hidden": [-1]}, "hidden must hold widths"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(SettingError, match=rf"HeavilyConstrainedConfig\.{message}"):
        HeavilyConstrainedConfig(**settings)
