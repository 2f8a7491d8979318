"""What the table says without a run: curvature of the smoothed problems, and the numbers that a state keeps."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.assembled import assembled, known_catalogue
from drobench.objective.composite import Composite
from drobench.objective.forms import NativeForm
from drobench.objective.oracles.build import build_oracle
from drobench.objective.wasserstein import WassersteinRisk
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.wasserstein import WassersteinToComposite, restore
from drobench.solver import SingleProcess

L2 = 0.01
DATA = ("dataset=synthetic", "dataset.features=5", "dataset.conditioning=well")
TRANSPORT = (*DATA, "problem=wasserstein_logistic", "problem.radius=0.01", f"problem.l2={L2}")
ONE_THREAD = "trainer.threads=1"
_DIFFERENCE = 1e-6
_STEPS = 3


def numbers_kept(state: Any) -> int:
    """Return how many numbers the tensors of a state hold; a tensor that appears twice is kept once."""
    tensors: dict[int, Tensor] = {}

    def visit(part: Any) -> None:
        if isinstance(part, Tensor):
            tensors[part.data_ptr()] = part
        elif dataclasses.is_dataclass(part):
            for item in dataclasses.fields(part):
                visit(getattr(part, item.name))
        elif isinstance(part, list | tuple):
            for item in part:
                visit(item)

    visit(state)
    return sum(tensor.numel() for tensor in tensors.values())


def storage(solver: Sequence[str], size: int) -> int:
    """Return the most numbers that the solver's state holds in its first steps on `size` samples."""
    task = assembled((*TRANSPORT, *solver, f"dataset.rows={size}", ONE_THREAD)).task
    oracle, alone = task.build_oracles[-1](), SingleProcess()
    state = task.solver.init(task.start, oracle, alone)
    kept = numbers_kept(state)
    for _ in range(_STEPS):
        state = task.solver.step(state, oracle, alone)
        kept = max(kept, numbers_kept(state))
    return kept


def curvatures(kind: str, size: int, widths: Sequence[float], seed: int = 0) -> list[float]:
    """Return the largest curvature of the smoothed problem at the exact solution, for each width."""
    form = assembled((*TRANSPORT, f"dataset.rows={size}", f"dataset.seed={seed}", "solver=gcivr", ONE_THREAD)).form
    assert isinstance(form, WassersteinRisk)
    joint = restore(form, _solution(form))
    point = joint if kind == "literal" else joint[: form.dimension + 1]
    return [
        top_curvature(WassersteinToComposite().apply(form, ReformulationConfig(gamma=width, wasserstein=kind)), point)
        for width in widths
    ]


def top_curvature(form: Composite | NativeForm, point: Tensor) -> float:
    """Return the top eigenvalue of the Hessian of the smooth part."""
    return float(_eigenvalues(form, point)[-1])


def condition_number(problem: Sequence[str], size: int, seed: int = 0) -> float:
    """Return the largest over the smallest curvature of a convex risk and its regularizer, at the exact solution."""
    instance = (f"dataset.rows={size}", f"dataset.seed={seed}", f"problem.l2={L2}")
    form = assembled((*DATA, *problem, *instance, "solver=gcivr", ONE_THREAD)).form
    curvature = _eigenvalues(form, _solution(form)) + L2
    return float(curvature[-1] / curvature[0])


def _eigenvalues(form: Composite | NativeForm, point: Tensor) -> Tensor:
    """Return those of the Hessian of the smooth part, from central differences of its gradient."""
    steps = _DIFFERENCE * torch.eye(point.numel(), dtype=point.dtype)
    columns = [form.smooth_gradient(point + step) - form.smooth_gradient(point - step) for step in steps]
    hessian = torch.stack(columns) / (2.0 * _DIFFERENCE)
    eigenvalues: Tensor = torch.linalg.eigvalsh(0.5 * (hessian + hessian.T))
    return eigenvalues


def _solution(form: NativeForm) -> Tensor:
    """Return the exact minimiser."""
    entry = known_catalogue().solver("exact_convex").entry
    solver, alone, start = entry.factory(entry.config()), SingleProcess(), _origin(form)
    oracle = build_oracle(form, 0, start)
    solution: Tensor = solver.solution(solver.step(solver.init(start, oracle, alone), oracle, alone))
    return solution


def _origin(form: NativeForm) -> Tensor:
    return torch.zeros(form.dimension, dtype=torch.float64)
