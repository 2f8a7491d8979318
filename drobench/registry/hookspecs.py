"""The hooks through which plugins offer what they have.

A plugin is a module (or any object) named by an entry point of the group `drobench`. It marks its functions with
`hookimpl`; each of them returns a list, which may be empty:

    from drobench.registry import SolverEntry, hookimpl

    drobench_api = 1

    @hookimpl
    def drobench_solvers():
        return [SolverEntry(name="my_solver", ...)]

`drobench_api` is the version of this interface that the plugin was made for. It is read before any hook is called: a
plugin made for a version that this drobench does not have is reported, not tried.
"""

from collections.abc import Mapping
from types import MappingProxyType

import pluggy

from drobench.registry.entries import (
    DatasetEntry,
    Entry,
    LoggerEntry,
    LossEntry,
    ModelEntry,
    ProblemEntry,
    ReformulationEntry,
    SolverEntry,
)

PROJECT = "drobench"

PLUGIN_API = 1
"""Version of what plugins rely on: hooks, entries, and the contracts of solvers, problems and datasets. It grows when a
plugin that worked would no longer work; additions leave it alone."""

OLDEST_PLUGIN_API = 1
"""Oldest version that plugins may have been made for and still work."""

UNDECLARED_PLUGIN_API = 1
"""What a plugin without `drobench_api` counts as: the first version, not the current one, which its author cannot have
known."""

API_ATTRIBUTE = "drobench_api"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def drobench_solvers() -> list[SolverEntry]:
    """Return an entry for each solver. Import torch and the method in here, not at the top of the module."""
    raise NotImplementedError


@hookspec
def drobench_problems() -> list[ProblemEntry]:
    """Return an entry for each problem; heavy imports belong in here, as for solvers."""
    raise NotImplementedError


@hookspec
def drobench_datasets() -> list[DatasetEntry]:
    """Return an entry for each dataset. Nothing is loaded or fetched here: the factory does that, when it is used."""
    raise NotImplementedError


@hookspec
def drobench_models() -> list[ModelEntry]:
    """Return an entry for each model; the modules themselves are made by its factory."""
    raise NotImplementedError


@hookspec
def drobench_losses() -> list[LossEntry]:
    """Return an entry for each loss of a score and a target."""
    raise NotImplementedError


@hookspec
def drobench_reformulations() -> list[ReformulationEntry]:
    """Return an entry for each step from one form of a problem to another."""
    raise NotImplementedError


@hookspec
def drobench_loggers() -> list[LoggerEntry]:
    """Return an entry for each place that curves can go to; the package behind it is imported by its factory."""
    raise NotImplementedError


ENTRY_OF_HOOK: Mapping[str, type[Entry]] = MappingProxyType(
    {
        "drobench_solvers": SolverEntry,
        "drobench_problems": ProblemEntry,
        "drobench_datasets": DatasetEntry,
        "drobench_models": ModelEntry,
        "drobench_losses": LossEntry,
        "drobench_reformulations": ReformulationEntry,
        "drobench_loggers": LoggerEntry,
    }
)
"""Which class of entry each hook returns."""
