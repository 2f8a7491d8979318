"""Reformulations of plugins: in a run's route, in the code of its record, and refused by name."""

import subprocess
import sys

import pytest

from drobench.errors import DrobenchError
from drobench.objective.forms import RobustRisk
from drobench.reformulation.constraints import ProjectedConstraints
from drobench.reformulation.names import OWN_NAMES
from drobench.reformulation.reformulation import Reformulation
from drobench.reformulation.routes import REFORMULATIONS
from drobench.registry import EntryError, ReformulationEntry, build_catalogue, hookimpl
from drobench.registry.catalogue import Source
from drobench.registry.entries import NoSettings
from drobench.registry.reformulations import reformulations_of


class Mine(Reformulation):
    """A step of a stranger."""

    name = "mine"
    produces = RobustRisk

    def accepts(self, form):
        return False

    def apply(self, form, options):
        return form


def plugin(*entries):
    class Plugin:
        drobench_api = 1

        @hookimpl
        def drobench_reformulations(self):
            return [make() for make in entries]

    return Plugin()


def entry(name="mine", factory=lambda config: Mine()):
    return lambda: ReformulationEntry(name=name, summary="Mine.", factory=factory, config=NoSettings)


def catalogue_of(**plugins):
    sources = [
        Source(plugin=name, distribution=name, version="1.0", loader=lambda found=found: found)
        for name, found in plugins.items()
    ]
    return build_catalogue(sources, disabled=())


def test_steps_come_from_the_catalogue_fresh_each_time():
    (make,) = reformulations_of(catalogue_of(one=plugin(entry())))
    assert isinstance(make(), Mine)
    assert make() is not make()


def test_of_two_of_one_name_the_second_is_reported():
    catalogue = catalogue_of(one=plugin(entry()), two=plugin(entry()))
    assert len(reformulations_of(catalogue)) == 1
    message = catalogue.troubles[0].message
    assert "its reformulation 'mine' was left out, because that name is taken by one 1.0" in message


@pytest.mark.parametrize("name", ["cvar", "drop_robustness", "projected_constraints"])
def test_the_names_of_ours_cannot_be_taken(name):
    with pytest.raises(EntryError, match="must be other than those of drobench's own"):
        entry(name)()
    catalogue = catalogue_of(one=plugin(entry(name)), two=plugin(entry()))
    assert list(catalogue.reformulations) == ["mine"]
    assert "drobench's own" in catalogue.troubles[0].message


def test_the_reserved_names_are_those_that_there_are():
    assert {kind.name for kind in REFORMULATIONS} | {ProjectedConstraints.name, "wasserstein_literal"} == OWN_NAMES


@pytest.mark.parametrize(
    ("factory", "found"),
    [
        (lambda config: "a step", "found a str"),
        (lambda config: type("Mine", (Mine,), {"name": "yours"})(), "'yours'"),
        (lambda config: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_factory_that_returns_something_else_is_named(factory, found):
    (make,) = reformulations_of(catalogue_of(one=plugin(entry(factory=factory))))
    with pytest.raises(DrobenchError, match=f"'mine', from one 1.0.*{found}"):
        make()


@pytest.mark.process
def test_a_catalogue_imports_no_reformulation():
    program = "import sys, drobench.registry; print('drobench.reformulation.routes' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
