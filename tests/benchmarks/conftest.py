"""Small sweeps for the programs that read stored runs."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

_KL = ("dataset=synthetic", "problem=kl_classification", "problem.gamma=1.0", "evaluation.every_passes=0.5")
_GROUPS = ("dataset=communities_twin", "dataset.rows=200", "problem=intersectional_fairness", "budget.steps=20")
_RISK = ("problem.l2=0.01", "dataset.features=5", "dataset.conditioning=well", "budget.target_gap=0.05")

# The cells of each, in the words of the sweep of the same name.
SWEEPS = {
    "convergence": [
        (*_KL, "dataset.rows=60", "budget.passes=4", f"solver={solver}", f"solver.step_scale={step}")
        for solver, step in product(("gcivr", "prox_gradient"), (0.3, 1.0))
    ],
    "second_order": [
        (*_KL, "dataset.rows=60", "problem.l2=1e-4", "budget.passes=4", f"solver={solver}", "problem.variant=ball")
        for solver in ("gcivr", "prox_gradient")
    ],
    "table1": [
        (*_KL, *_RISK, f"dataset.rows={rows}", f"dataset.seed={seed}", f"seed={seed}", "solver=gcivr")
        for rows, seed in product((32, 64), (0, 1))
    ],
    "figure1": [
        (*_GROUPS, f"dataset.seed={seed}", f"solver={solver}")
        for solver, seed in product(("gcivr", "heavily_constrained", "unconstrained"), (0, 1))
    ],
    "tuning": [(*_GROUPS, "solver=unconstrained", f"solver.learning_rate={rate}") for rate in (0.001, 0.1)],
}


@pytest.fixture(scope="session")
def small_sweep(tmp_path_factory) -> Callable[[str], Path]:
    """Return what computes a sweep the first time it is asked for, and gives the folder of its results."""
    from drobench import run
    from drobench.results.record import FAILURES

    folders: dict[str, Path] = {}

    def computed(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(f"small-{name}")
            for words in SWEEPS[name]:
                record = run(*words, results=str(folders[name]))
                assert record.status not in FAILURES, record.reason
        return folders[name]

    return computed
