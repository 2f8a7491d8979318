"""What the files of a run say of each other, and where they contradict each other."""

import copy
from dataclasses import replace

import pytest

from drobench.app.claims import contradictions, iterate_values
from drobench.app.config import to_yaml
from drobench.app.stored_config import stored_values
from drobench.results.store import ResultStore


@pytest.fixture
def files(finished):
    """The record of a run, its stored configuration and its curve."""
    folder, runs = finished
    store, run_id = ResultStore(folder), runs["scgd"].run_id
    return store.read(run_id), stored_values(store.config(run_id)), store.curve(run_id)


def named(files, catalogue):
    return [mismatch.what for mismatch in contradictions(*files, catalogue)]


def test_an_honest_run_contradicts_nothing(files, catalogue):
    assert named(files, catalogue) == []


def test_an_id_of_the_whole_configuration_is_an_honest_one(files, catalogue):
    """As versions before 0.3.0 made them."""
    from drobench.app.identity import wholly_asked
    from drobench.results.record import content_id

    record, values, curve = files
    older = replace(record, asked=None, code={}, code_parts={})
    older = replace(older, run_id=content_id(wholly_asked(older, values)))
    assert named((older, values, curve), catalogue) == []
    values["solver"]["batch"] = 7
    record_too = replace(older, solver=replace(older.solver, config={**older.solver.config, "batch": 7}))
    assert named((record_too, values, curve), catalogue) == ["run_id"]


def test_settings_that_came_later_contradict_nothing(files, catalogue):
    """A record of a time when the solver had fewer settings."""
    record, values, curve = files
    for settings in (values["solver"], record.solver.config):
        del settings["replacement"]
    assert named((record, values, curve), catalogue) == []


def test_defaults_of_another_version_are_not_compared(files, configure, catalogue):
    from app_samples import with_solver

    record, values, curve = files
    values["solver"]["batch"] = record.solver.config["batch"] = 5
    assert named((record, values, curve), catalogue) == ["solver.batch, not asked for"]
    changed = with_solver(catalogue, "scgd", config_changes=("batch: was 5, is 32",))
    assert named((record, values, curve), changed) == []


def test_a_scored_run_has_a_curve(files, catalogue):
    record, values, curve = files
    assert named((record, values, curve.clear()), catalogue) == ["curve"]


def test_a_run_without_iterates_has_nothing_but_settings(files, catalogue):
    record, values, curve = files
    failed = replace(record, iterates=type(record.iterates)())
    assert named((failed, values, curve.clear()), catalogue) == []


def test_every_group_of_settings_is_compared(files, catalogue):
    record, values, curve = files
    for group in ("dataset", "problem", "solver", "model", "budget", "trainer", "reformulation"):
        other = copy.deepcopy(values)
        other[group]["something"] = 1
        assert any(what.startswith(group) for what in named((record, other, curve), catalogue)), group


def test_all_metrics_of_an_iterate_are_named(files):
    last = files[0].iterates.last
    found = iterate_values(last)
    assert {"objective", "gap", "feasible", "step"} <= set(found)
    assert set(last.extra) <= set(found)
    assert last.extra


def test_the_configuration_of_today_is_readable(configure):
    assert stored_values(to_yaml(configure()))["seed"] == 0
