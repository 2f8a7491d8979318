"""Settings that make no sense are refused by name; entries build what they describe."""

import dataclasses
import math

import pytest

from drobench.errors import SettingError
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum, RobustRisk
from drobench.registry import SolverEntry
from drobench.solver import Solver
from drobench.solver.solver import state_type
from drobench_plugins.solvers import exact_convex, gcivr, scgd, unconstrained
from drobench_plugins.solvers.exact_convex import ExactConvexConfig
from drobench_plugins.solvers.gcivr import GcivrConfig
from drobench_plugins.solvers.scgd import ScgdConfig
from drobench_plugins.solvers.unconstrained import UnconstrainedConfig

POSITIVE = [
    (GcivrConfig, ["step_size", "step_scale", "epoch_length", "batch", "refresh_batch", "initial"]),
    (ScgdConfig, ["step_size", "step_scale", "delay", "batch"]),
    (UnconstrainedConfig, ["learning_rate", "batch"]),
    (ExactConvexConfig, ["tolerance", "iterations", "conic_tolerance"]),
]
NOT_NEGATIVE = [(GcivrConfig, ["growth"]), (UnconstrainedConfig, ["initial_accumulator", "epsilon"])]
CHOICES = [
    (GcivrConfig, "schedule"),
    (GcivrConfig, "output"),
    (ScgdConfig, "decay"),
    (UnconstrainedConfig, "optimizer"),
]


@pytest.mark.parametrize(("kind", "names"), POSITIVE, ids=lambda each: getattr(each, "__name__", ""))
def test_settings_that_must_be_positive(kind, names):
    for name in names:
        for value in (0, -1, math.nan, math.inf):
            with pytest.raises(SettingError, match=rf"{kind.__name__}\.{name} must be a finite number above 0"):
                kind(**{name: value})


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NOT_NEGATIVE for name in names])
def test_a_setting_that_may_be_zero_but_not_negative(kind, name):
    assert getattr(kind(**{name: 0.0}), name) == 0.0
    with pytest.raises(SettingError, match=rf"{kind.__name__}\.{name} must be a finite number of at least 0"):
        kind(**{name: -1e-9})


@pytest.mark.parametrize(("kind", "name"), CHOICES)
def test_an_unknown_choice_is_refused_and_the_known_ones_are_listed(kind, name):
    default = getattr(kind(), name)
    with pytest.raises(SettingError, match=rf"{kind.__name__}\.{name} must be one of .*{default}.*; found 'nonsense'"):
        kind(**{name: "nonsense"})


@pytest.mark.parametrize("value", [0.99, 2.0, -1.0, math.nan])
def test_a_step_size_may_recover_but_never_double(value):
    assert GcivrConfig(recovery=1.0).recovery == 1.0
    with pytest.raises(SettingError, match=r"GcivrConfig\.recovery must be in \[1, 2\)"):
        GcivrConfig(recovery=value)


def test_the_best_snapshot_needs_refreshes_on_everything():
    with pytest.raises(SettingError, match="best_snapshot compares full objectives, which refresh_batch=50 never"):
        GcivrConfig(output="best_snapshot", refresh_batch=50)


def test_the_best_snapshot_goes_with_full_refreshes_and_with_the_adaptive_schedule():
    assert GcivrConfig(output="best_snapshot").refresh_batch is None
    # The adaptive schedule has refresh sizes of its own, which reach the full set.
    assert GcivrConfig(output="best_snapshot", schedule="adaptive", refresh_batch=50).output == "best_snapshot"


@pytest.mark.parametrize(
    ("module", "name", "accepts"),
    [
        (gcivr, "gcivr", {Composite}),
        (scgd, "scgd", {Composite}),
        (unconstrained, "unconstrained", {FiniteSum}),
        (exact_convex, "exact_convex", {RobustRisk, FiniteSum}),
    ],
)
def test_an_entry_builds_its_solver_from_default_settings(module, name, accepts):
    entry = module.entry()
    assert isinstance(entry, SolverEntry)
    assert entry.name == name
    assert accepts <= set(entry.accepts)
    assert entry.exact == (name == "exact_convex")
    solver = entry.factory(entry.config())
    assert isinstance(solver, Solver)
    kind = state_type(solver)
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
