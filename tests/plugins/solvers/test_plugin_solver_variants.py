"""Our solvers with other settings than their defaults keep what every solver promises.

With their defaults they are held against all checks; here it is the conduct of the branches that only a setting opens.
"""

import pytest

from drobench.checks.running import run_checks
from drobench.checks.solvers.checkpoints import CheckpointChecks
from drobench.checks.solvers.conduct import ConductChecks
from drobench.checks.trials import find_trials, last, states
from drobench.registry import load_catalogue

SNAPSHOTS = {"snapshot_every": 4, "output": "best_candidate"}
# Large enough for epochs to be rejected within the steps of a trial.
REJECTED = {"step_size": 20.0, "output": "random", "average": True}
VARIANTS = {
    "gcivr_large_step": ("gcivr", REJECTED),
    "gcivr_best_snapshot": ("gcivr", {"average": True, "output": "best_snapshot"}),
    "gcivr_adaptive": ("gcivr", {"schedule": "adaptive", "growth": 1.0, "initial": 2.0}),
    "gcivr_adaptive_random": ("gcivr", {"schedule": "adaptive", "output": "random", "average": True}),
    "gcivr_replacement": ("gcivr", {"replacement": True, "refresh_batch": 30}),
    "dist_gcivr_uneven": ("dist_gcivr", {"shards": [5.0, 1.0, 2.0], "local_batch": "paper", "replacement": True}),
    "dist_gcivr_global": ("dist_gcivr", {"clients": 3, "sampling": "global", "output": "random"}),
    "scgd_strongly_convex": ("scgd", {"batch": 8, "decay": "strongly_convex", "replacement": True}),
    "sgd": ("unconstrained", {"optimizer": "sgd", "batch": 8}),
    "adagrad": ("unconstrained", {"optimizer": "adagrad", "batch": 8, "initial_accumulator": 0.1}),
    "adam": ("unconstrained", {"optimizer": "adam", "batch": 8, "replacement": True}),
    "heavily_rows": ("heavily_constrained", {"batch": 6, "constraint_batch": 2}),
    "heavily_network": (
        "heavily_constrained",
        {"hidden": [5], "outputs": 2, "normalise_features": True, "constraint_batch": 3, "optimizer": "adam"}
        | {"average": True, **SNAPSHOTS},
    ),
    "heavily_defect": (
        "heavily_constrained",
        {"broadcast_defect": True, "constraint_batch": 4, "constraint_order": "cyclic", "batch": 7},
    ),
    "lagrangian_average": ("lagrangian", {"batch": 6, "constraint_batch": 2, "replacement": True, "average": True}),
    "lagrangian_snapshots": ("lagrangian", {"optimizer": "sgd", "batch": 6, "rank_objectives": False, **SNAPSHOTS}),
    "lagrangian_common": (
        "lagrangian",
        {"variant": "common", "constraint_batch": 3, "constraint_order": "cyclic", "dual_rates": False, "batch": 9}
        | {"snapshot_every": 1},
    ),
    "lagrangian_one_row": ("lagrangian", {"batch": 1, "constraint_batch": 1, "snapshot_every": 5}),
}


# Each takes a few seconds.
pytestmark = pytest.mark.convergence


class Conduct(CheckpointChecks, ConductChecks):
    """The checks that are about neither accuracy nor cost."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_keeps_its_conduct(variant):
    name, settings = VARIANTS[variant]
    found = run_checks({"TestIt": type("TestIt", (Conduct,), {"name": name, "settings": settings})})
    assert len(found) == len(Conduct.checks())
    assert {result.check: result.reason for result in found if result.outcome != "passed"} == {}


def test_the_large_step_is_one_that_is_rejected():
    entry = load_catalogue().solver("gcivr").entry
    config = entry.config(**REJECTED)
    ends = [
        last(states(entry.factory(config), trial.oracle(5), trial.start, 40)) for trial in find_trials(entry, config)
    ]
    assert any(state.safeguard.step_size < REJECTED["step_size"] for state in ends)
    assert any(state.safeguard.accepted is not None for state in ends)
