"""The three hooks through which plugins offer what they have.

A plugin is a module (or any object) named by an entry point of the group `drobench`. It marks its functions with
`hookimpl`; each of them returns a list, which may be empty:

    from drobench.registry import SolverEntry, hookimpl

    @hookimpl
    def drobench_solvers():
        return [SolverEntry(name="my_solver", ...)]
"""

from collections.abc import Mapping
from types import MappingProxyType

import pluggy

from drobench.registry.entries import DatasetEntry, Entry, ProblemEntry, SolverEntry

PROJECT = "drobench"

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
