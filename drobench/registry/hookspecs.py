"""The three hooks through which plugins offer what they have.

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

from drobench.registry.entries import DatasetEntry, Entry, ProblemEntry, SolverEntry

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
    """Return the solvers of this plugin."""
    raise NotImplementedError


@hookspec
def drobench_problems() -> list[ProblemEntry]:
    """Return the problems of this plugin."""
    raise NotImplementedError


@hookspec
def drobench_datasets() -> list[DatasetEntry]:
    """Return the datasets of this plugin."""
    raise NotImplementedError


ENTRY_OF_HOOK: Mapping[str, type[Entry]] = MappingProxyType(
    {
        "drobench_solvers": SolverEntry,
        "drobench_problems": ProblemEntry,
        "drobench_datasets": DatasetEntry,
    }
)
"""Which class of entry each hook returns."""
