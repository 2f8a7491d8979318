"""Configurations composed of a list of plugins: the same values, the same refusals."""

import pytest
from app_samples import SMALL, configured

from drobench import registry
from drobench.app.config import compose, hydra_ready, register, resolve
from drobench.app.listed_config import of_plugins
from drobench.registry import listing


def _let_list(monkeypatch, catalogue):
    monkeypatch.setattr(registry, "list_catalogue", lambda: catalogue)
    monkeypatch.setattr(registry, "find_listing", lambda: registry.Listing(catalogue, None))


@pytest.fixture
def only_listed(catalogue, monkeypatch):
    """Let commands have a list for names, as in a new process, and the plugins only where something is built."""
    found = listing._catalogue(listing._values(catalogue))
    _let_list(monkeypatch, found)
    return found


def test_a_composition_of_the_list_becomes_that_of_the_plugins(catalogue, only_listed, results):
    words = [
        "solver=scgd",
        "solver.batch=3",
        "problem.loss=smoothed_hinge",
        "problem.loss_settings.width=0.5",
        "seed=7",
    ]
    register(only_listed)
    with hydra_ready():
        composed = compose([*SMALL, *words, f"results={results}"], only_listed)
    found = resolve(of_plugins(composed, catalogue))
    expected = configured(catalogue, results, *words)
    assert found == expected
    assert type(found.solver) is type(expected.solver)
    assert isinstance(found.solver, catalogue.solver("scgd").entry.config)


def test_a_composition_of_the_plugins_stays_as_it_is(catalogue):
    register(catalogue)
    with hydra_ready():
        composed = compose(list(SMALL), catalogue)
    assert of_plugins(composed, catalogue) is composed


def test_a_plugin_that_is_gone_is_refused_by_name(catalogue, only_listed):
    import dataclasses

    without = dataclasses.replace(catalogue, solvers={"newton": catalogue.solvers["newton"]})
    register(only_listed)
    with hydra_ready():
        composed = compose([*SMALL, "solver=scgd"], only_listed)
    with pytest.raises(registry.UnknownName, match="no solver called 'scgd'"):
        of_plugins(composed, without)


@pytest.mark.parametrize(
    "words",
    [
        ["solver=gcvir"],
        ["solver.stepsize=1"],
        ["solver=unconstrained", "solver.batchh=3"],
        ["solver=newton", "solver.batch=8"],
        ["solver.batch=many"],
        ["solver.batch=1.5"],
        ["problem.gamma=0"],
        ["problem.gamma=[1]"],
        ["dataset.split=0.5"],
        ["dataset.split=[a,b]"],
        ["+solver.mine=3"],
        ["problem.name=other"],
        ["problem=null"],
        ["seed=abc"],
        ["trainer.devices=2"],
        ["budget=${evaluation}"],
        ["not an override"],
        ["experiment=nothing_such"],
        ["-m", "solver=gcivr,newton", "solver.batch=8,16"],
    ],
)
def test_mistakes_have_the_same_message_with_a_list_as_without(command, only_listed, monkeypatch, catalogue, words):
    listed = command("run", *words)
    _let_list(monkeypatch, catalogue)
    assert command("run", *words) == listed
    assert listed.code == 2
    assert listed.err


@pytest.mark.parametrize("words", [["--help"], ["--cfg", "job"], ["--cfg", "job", "solver=scgd", "--resolve"]])
def test_what_is_shown_is_the_same_with_a_list_as_without(command, only_listed, monkeypatch, catalogue, words):
    listed = command("run", *words)
    _let_list(monkeypatch, catalogue)
    assert command("run", *words) == listed
    assert (listed.code, listed.err) == (0, "")


def test_plugins_shows_the_same_with_a_list_as_without(command, only_listed, monkeypatch, catalogue):
    listed = command("plugins")
    _let_list(monkeypatch, catalogue)
    assert command("plugins") == listed
    assert "[reconstructed]" in listed.out


def test_a_run_by_way_of_the_list_is_the_run_without(command, only_listed, monkeypatch, catalogue, results):
    assert command("run", *SMALL, "solver=scgd", "solver.batch=3", f"results={results}").code == 0
    _let_list(monkeypatch, catalogue)
    assert "already" in command("run", *SMALL, "solver=scgd", "solver.batch=3", f"results={results}").out
