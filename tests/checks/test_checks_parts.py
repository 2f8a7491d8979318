"""The parts that the checks are made of, against independent answers."""

import math
import socket
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, minimize

from drobench.checks import rates
from drobench.checks.device_guard import device_guard, lies_elsewhere
from drobench.checks.known_solutions import known_problems
from drobench.checks.no_network import NetworkRefused, no_network
from drobench.checks.snapshots import difference, snapshot
from drobench.objective.forms import Constrained

PROBLEMS = {problem.name: problem for problem in known_problems()}


def lowest_bound_of_all_groups(problem):
    """Return the point of the smallest number that no group's mean loss exceeds; a maximum has a kink, this has not."""
    targets, groups = (part.numpy() for part in problem.data)

    def room(joint):
        losses = 0.5 * ((joint[:-1] - targets) ** 2).sum(axis=1)
        return [joint[-1] - losses[groups == group].mean() for group in np.unique(groups)]

    start = np.append(problem.start.numpy(), 10.0)
    condition = {"type": "ineq", "fun": room}
    found = minimize(lambda joint: joint[-1], start, constraints=condition, method="SLSQP", options={"ftol": 1e-14})
    return torch.from_numpy(found.x[:-1])


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_known_optimum_is_that_of_a_general_solver(name):
    problem = PROBLEMS[name]
    form, constraints = problem.form, ()
    if isinstance(form, Constrained):
        constraints = LinearConstraint(form.constraints.normals.numpy(), ub=form.constraints.bounds.numpy())
    if name == "worst_group":
        solution = lowest_bound_of_all_groups(problem)
        assert problem.value(solution) == pytest.approx(problem.optimum, abs=1e-9)
        return
    found = minimize(
        lambda point: float(form.value(torch.from_numpy(point))),
        problem.start.numpy(),
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.fun == pytest.approx(problem.optimum, abs=1e-7)
    assert problem.gap(torch.from_numpy(found.x)) == pytest.approx(0.0, abs=1e-6)
    assert problem.gap(problem.start) == 1.0


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_point_around_the_optimum_has_a_negative_gap(name):
    problem = PROBLEMS[name]
    generator = torch.Generator().manual_seed(0)
    points = 2.0 * torch.randn(200, len(problem.start), generator=generator, dtype=torch.float64)
    assert min(problem.gap(point) for point in points) >= 0.0


def test_a_spoiled_problem_has_no_value():
    for problem in known_problems(spoiled=True):
        assert math.isnan(float(problem.form.value(problem.start)))


@dataclass(frozen=True)
class Inner:
    number: float
    tensor: torch.Tensor


@dataclass(frozen=True)
class Outer:
    inner: Inner
    rest: list[float]


def outer(number=1.0, entry=0.0, rest=2.0):
    return Outer(Inner(number, torch.tensor([entry, math.nan])), [rest])


@pytest.mark.parametrize(
    ("changes", "where"),
    [({}, ""), ({"number": 1.0 + 2**-52}, "inner.number"), ({"entry": -0.0}, "inner.tensor"), ({"rest": 3.0}, "rest")],
)
def test_a_snapshot_sees_the_last_bit(changes, where):
    assert difference(snapshot(outer()), snapshot(outer(**changes))) == where


def test_a_snapshot_does_not_move_with_what_it_was_taken_of():
    tensor = torch.zeros(2)
    before = snapshot({"tensor": tensor})
    tensor.add_(1.0)
    assert snapshot({"tensor": tensor}) != before


def noisy(law, seed):
    noise = np.random.default_rng(seed).normal(0.0, 0.1, 60)
    return [(float(calls), law(calls) * math.exp(error)) for calls, error in zip(range(5, 125, 2), noise, strict=True)]


@pytest.mark.parametrize("exponent", [0.25, 1.0, 2.0])
def test_the_exponent_of_a_power_is_recovered(exponent):
    measured = rates.power([noisy(lambda calls: calls**-exponent, seed) for seed in range(5)])
    assert measured.low <= exponent <= measured.high
    assert measured.high - measured.low < 0.2


@pytest.mark.parametrize(
    ("law", "straight"), [(lambda calls: math.exp(-0.1 * calls), True), (lambda calls: calls**-2.0, False)]
)
def test_a_linear_rate_is_told_from_a_power(law, straight):
    measured = rates.straightness([noisy(law, seed) for seed in range(5)])
    assert (measured.low > 0.0, measured.high < 0.0) == (straight, not straight)


def test_a_gap_that_is_gone_at_once_has_no_rate():
    assert rates.power([[(1.0, 1.0), (2.0, 1e-15), (3.0, 1e-15)]]) is None


def test_the_device_guard_tells_where_tensors_were_made():
    data = torch.ones(3)
    with device_guard() as noticed:
        alike = [
            torch.zeros_like(data),
            data.new_zeros(3),
            torch.zeros(3, device=data.device),
            torch.from_numpy(np.ones(3)).to(data),
            torch.zeros(3).to(data.device),
            torch.cat([torch.zeros(2), torch.from_numpy(np.ones(1, dtype=np.float32))]).to(data.device, data.dtype),
        ]
        for tensor in alike:
            assert not lies_elsewhere(data + tensor)
        # A single number may lie anywhere.
        assert not lies_elsewhere(data * torch.tensor(2.0))
        assert noticed == []
        for tensor in (torch.zeros(3), torch.zeros(3, device="cpu"), torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3) + 1):
            assert lies_elsewhere(tensor)
            noticed.clear()
            data + tensor
            assert len(noticed) == 1


def test_the_network_is_cut_off_and_given_back():
    before = socket.create_connection
    with no_network() as tried:
        with pytest.raises(NetworkRefused):
            socket.create_connection(("example.org", 80))
        with socket.socket() as made, pytest.raises(NetworkRefused):
            made.connect(("127.0.0.1", 9))
    assert len(tried) == 2
    assert socket.create_connection is before
