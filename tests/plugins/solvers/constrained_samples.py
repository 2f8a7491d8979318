"""Toy constrained problems, and what every Lagrangian solver is compared with.

Everything here is written out in plain formulas, apart from the package, so that a test compares two texts.
"""

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drobench.objective.forms import Constrained, Constraints, FiniteSum
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Losses
from drobench.objective.oracle import Oracle
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.regularizers import Regularizer, Zero
from drobench.objective.sampling import Shard
from drobench.solver import Communicator, SingleProcess, Solver


class Squares(Losses):
    """`f_i(x) = |x - a_i|^2 / 2`."""

    convex = True

    def __init__(self, targets: Tensor) -> None:
        self.targets = targets
        self.samples, self.dimension = targets.shape

    def origin(self) -> Tensor:
        return torch.zeros_like(self.targets[0])

    def linearize(self, points, index):
        offsets = points[:, None] - self.targets[index]
        return 0.5 * offsets.square().sum(-1), lambda cotangents: cotangents @ offsets


class HalfSpaces(Constraints):
    """`<a_k, x> <= b_k`, its own proxy and rate."""

    def __init__(self, normals: Tensor, bounds: Tensor, features: Tensor | None = None) -> None:
        self.normals, self.bounds = normals, bounds
        self.count, self.dimension = normals.shape
        self.features = torch.cat([normals, bounds[:, None]], dim=1) if features is None else features

    def surrogates(self, points, index):
        normals = self.normals[index]
        return points @ normals.T - self.bounds[index], lambda cotangents: cotangents @ normals

    def violations(self, points, index):
        return self.surrogates(points, index)[0]


class GroupErrors(Constraints):
    """Error rate of each group at most that of all plus a slack: hinge proxies, 0-1 rates with ties one half."""

    def __init__(self, signed_rows: Tensor, members: Tensor, slack: float, features: Tensor) -> None:
        self.rows, self.members, self.slack, self.features = signed_rows, members, slack, features
        self.count, self.dimension = members.shape[0], signed_rows.shape[1]
        self.shares = members / members.sum(dim=1, keepdim=True)

    def surrogates(self, points, index):
        margins, shares = points @ self.rows.T, self.shares[index]
        wrong, right = (1.0 - margins).clamp(min=0.0), (1.0 + margins).clamp(min=0.0)
        values = wrong @ shares.T + right.mean(dim=1, keepdim=True) - 1.0 - self.slack

        def pullback(cotangents: Tensor) -> Tensor:
            by_wrong = -(cotangents @ shares) * (wrong > 0)[:, None]
            by_right = cotangents.sum(dim=-1, keepdim=True) / len(self.rows) * (right > 0)[:, None]
            return (by_wrong + by_right) @ self.rows

        return values, pullback

    def violations(self, points, index):
        margins = points @ self.rows.T
        errors = (margins < 0).to(margins.dtype) + 0.5 * (margins == 0)
        return errors @ self.shares[index].T - errors.mean(dim=1, keepdim=True) - self.slack


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def projection_problem(normals, bounds, target, regularizer: Regularizer | None = None) -> Constrained:
    """Return the projection of `target`, given as the mean of two rows, on a polyhedron."""
    target = torch.as_tensor(target, dtype=torch.float64)
    spread = 0.3 * torch.ones_like(target)
    objective = FiniteSum(Squares(torch.stack([target + spread, target - spread])), regularizer or Zero())
    normals, bounds = (torch.as_tensor(part, dtype=torch.float64) for part in (normals, bounds))
    return Constrained(objective, HalfSpaces(normals, bounds))


class Fairness:
    """Forty rows, seven overlapping groups with three features each."""

    rows, groups = 40, 7

    def __init__(self, regularizer: Regularizer | None = None) -> None:
        self.features = randn(self.rows, 3, seed=0)
        self.signs = torch.sign(self.features @ randn(3, seed=1) + 0.7 * randn(self.rows, seed=2))
        self.signed = self.features * self.signs[:, None]
        self.members = (randn(self.groups, self.rows, seed=3) > 0.2).to(torch.float64)
        self.group_features = randn(self.groups, 3, seed=4) + 1.0
        self.slack = 0.02
        objective = FiniteSum(LinearMarginLosses(self.features, self.signs, LogisticLoss()), regularizer or Zero())
        constraints = GroupErrors(self.signed, self.members, self.slack, self.group_features)
        self.form = Constrained(objective, constraints)
        self.start = 0.2 * randn(3, seed=5)

    def oracle(self, seed: int = 0, shard: Shard | None = None) -> ConstrainedOracle:
        return ConstrainedOracle(self.form, seed, self.start, shard or Shard())

    def loss(self, theta: Tensor, samples: Any = slice(None)) -> Tensor:
        return torch.log1p(torch.exp(-(self.signed[samples] @ theta))).mean()

    def proxy(self, theta: Tensor, group: int) -> Tensor:
        margins = self.signed @ theta
        inside = self.members[group].bool()
        return torch.relu(1 - margins[inside]).mean() + torch.relu(1 + margins).mean() - 1 - self.slack

    def rate(self, theta: Tensor, group: int) -> float:
        margins = (self.signed @ theta.detach()).tolist()
        errors = [1.0 if margin < 0 else 0.5 if margin == 0 else 0.0 for margin in margins]
        inside = [error for error, member in zip(errors, self.members[group].tolist(), strict=True) if member]
        return sum(inside) / len(inside) - sum(errors) / len(errors) - self.slack


def reference_run(
    problem: Fairness,
    multipliers: Callable[[int], Tensor],
    variables: list[Tensor],
    optimizer: torch.optim.Optimizer,
    draws: Sequence[tuple[Any, Sequence[int]]],
    *,
    dual_scale: float = 1.0,
    dual_rates: bool = True,
    penalty: Callable[[Tensor], Tensor] = lambda theta: theta.new_zeros(()),
    after: Callable[[], None] = lambda: None,
) -> list[list[Tensor]]:
    """Return the variables after each step of a torch optimizer on the loss as the method's paper writes it."""
    theta = variables[0]
    path = []
    for samples, groups in draws:
        optimizer.zero_grad()
        loss = problem.loss(theta, samples) + penalty(theta)
        for group in groups:
            multiplier, proxy = multipliers(group), problem.proxy(theta, group)
            violation = problem.rate(theta, group) if dual_rates else proxy.detach()
            loss = loss + multiplier.detach() * proxy - dual_scale * multiplier * violation
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            after()
        path.append([variable.detach().clone() for variable in variables])
    return path


def drawn(seed: int, steps: int, rows: int, batch: int | None, groups: int, group_batch: int | None, skip: int = 0):
    """Return the samples and groups of each step as numpy's generator gives them, after `skip` uniform numbers."""
    generator = np.random.default_rng(seed)
    generator.uniform(size=skip)
    draws = []
    for _ in range(steps):
        samples = slice(None) if batch is None else generator.choice(rows, batch, replace=False, shuffle=False)
        chosen = range(groups) if group_batch is None else generator.choice(groups, group_batch, False, shuffle=False)
        draws.append((samples, [int(group) for group in chosen]))
    return draws


def same(first, second) -> bool:
    """Whether two states agree bit for bit."""
    if is_dataclass(first):
        return type(first) is type(second) and all(
            same(getattr(first, field.name), getattr(second, field.name)) for field in fields(first)
        )
    if isinstance(first, Tensor):
        return isinstance(second, Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    return type(first) is type(second) and first == second


def through_a_file(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


class Threads(Communicator):
    """One of several processes, played by a thread."""

    def __init__(self, rank: int, board: list[Any], barrier: threading.Barrier) -> None:
        super().__init__()
        self.rank, self.world_size = rank, len(board)
        self.board, self.barrier = board, barrier

    def _all(self, content: Any) -> list[Any]:
        self.rounds += 1
        self.board[self.rank] = content
        self.barrier.wait()
        contents = list(self.board)
        self.barrier.wait()
        return contents

    def total(self, tensors):
        return [torch.stack(parts).sum(dim=0) for parts in zip(*self._all(list(tensors)), strict=True)]

    def maximum(self, tensor):
        return torch.stack(self._all(tensor)).amax(dim=0)


def run_on_several(solver: Solver[Any], problem: Fairness, parts: int, seed: int, steps: int) -> list[Any]:
    """Return last state, oracle and communicator of each of `parts` threads."""
    board: list[Any] = [None] * parts
    barrier = threading.Barrier(parts, timeout=60)
    ends: list[Any] = [None] * parts

    def work(rank: int) -> None:
        oracle, communicator = problem.oracle(seed, Shard(rank, parts)), Threads(rank, board, barrier)
        with torch.no_grad():
            state = solver.init(problem.start, oracle, communicator)
            for _ in range(steps):
                state = solver.step(state, oracle, communicator)
        ends[rank] = state, oracle, communicator

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(parts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_totals([oracle for _, oracle, _ in ends])
    return ends


def assert_totals(oracles: Sequence[Oracle]) -> None:
    """Each process must know, without asking, what all of them have counted together."""
    sums = {name: sum(oracle.counters.as_dict()[name] for oracle in oracles) for name in oracles[0].totals.as_dict()}
    for oracle in oracles:
        assert oracle.settled
        assert oracle.totals.as_dict() == sums


def run(solver: Solver[Any], oracle: ConstrainedOracle, start: Tensor, steps: int) -> list[Any]:
    """Return the states of a run as the training loop makes them: without gradients."""
    communicator = SingleProcess()
    with torch.no_grad():
        states = [solver.init(start, oracle, communicator)]
        for _ in range(steps):
            states.append(solver.step(states[-1], oracle, communicator))
    return states
