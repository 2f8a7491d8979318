"""Settings that make no sense are refused by name; entries build what they describe."""

import dataclasses
import math
import typing

import pytest

from drobench.errors import SettingError
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum, RobustRisk
from drobench.registry import SolverEntry, load_catalogue
from drobench.solver import Solver
from drobench.solver.solver import state_type
from drobench_plugins.solvers import exact_convex, gcivr, scgd, unconstrained
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig
from drobench_plugins.solvers.scgd import ScgdConfig
from drobench_plugins.solvers.unconstrained import UnconstrainedConfig

# Settings of which zero makes sense; every other number of a solver must be above it.
JOINT = {"accumulator", "epsilon", "dual_scale", "snapshot_from"}
MAY_BE_ZERO = {
    "gcivr": {"growth"},
    "civr": {"growth"},
    "dist_gcivr": {"growth"},
    "gcivr_authors": {"weight_decay"},
    "group_dro": {"adjustment"},
    "heavily_constrained": JOINT,
    "lagrangian": {*JOINT, "initial_multiplier"},
    "one_projection_sgd": {"gamma"},
    "preconditioned_gcivr": {"inner_steps"},
    "unconstrained": {"initial_accumulator", "epsilon"},
}
SOLVERS = {name: found.entry for name, found in load_catalogue().solvers.items() if found.distribution == "drobench"}
CHOICES = [
    (GcivrConfig, "schedule"),
    (GcivrConfig, "output"),
    (ScgdConfig, "decay"),
    (UnconstrainedConfig, "optimizer"),
]


def numbers_of(kind):
    """Return the settings that are numbers, or numbers or null."""
    hints = typing.get_type_hints(kind)
    return [name for name, hint in hints.items() if hint in (int, float, int | None, float | None)]


@pytest.mark.parametrize("name", SOLVERS)
def test_numbers_that_make_no_sense_are_refused_by_name(name):
    kind = SOLVERS[name].config
    for setting in numbers_of(kind):
        lowest = (-1e-9,) if setting in MAY_BE_ZERO.get(name, ()) else (0, -1e-9)
        for value in (*lowest, -1, math.nan, math.inf):
            with pytest.raises(SettingError, match=rf"\w+Config\.{setting} must be .*found {value}"):
                kind(**{setting: value})


@pytest.mark.parametrize("name", MAY_BE_ZERO)
def test_zero_is_allowed_where_it_makes_sense(name):
    kind = SOLVERS[name].config
    for setting in MAY_BE_ZERO[name]:
        assert getattr(kind(**{setting: 0.0}), setting) == 0.0


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
