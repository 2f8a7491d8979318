"""The checks of what is installed, as classes that pytest collects."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from drobench.checks.dataset_checks import DatasetChecks
from drobench.checks.loss_checks import LossChecks
from drobench.checks.model_checks import ModelChecks
from drobench.checks.no_network import tried_at_import
from drobench.checks.problem_checks import ProblemChecks
from drobench.checks.solver_checks import SolverChecks
from drobench.checks.subject import Checks
from drobench.checks.two_ranks import Request, on_two_processes
from drobench.registry import Catalogue

KINDS: Mapping[str, type[Checks]] = MappingProxyType(
    {
        "solver": SolverChecks,
        "problem": ProblemChecks,
        "dataset": DatasetChecks,
        "model": ModelChecks,
        "loss": LossChecks,
    }
)


def checks_of(kind: str, name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> type[Checks]:
    """Return the checks of one installed thing, as its author would have written them."""
    title = "".join(part.capitalize() for part in (kind, *name.split("_")))
    return type(f"Test{title}", (KINDS[kind],), {"name": name, "settings": dict(settings)})


def checks_called(
    name: str, catalogue: Catalogue, settings: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, type[Checks]]:
    """Return the checks of everything called `name`, by the names of the classes; empty if there is no such thing."""
    found = [checks_of(kind, name, settings) for kind in KINDS if name in catalogue.of_kind(kind)]
    return {made.__name__: made for made in found}


def start_together(catalogue: Catalogue, solvers: Iterable[str], datasets: Iterable[str]) -> None:
    """Let checks of many subjects share the processes they need; each then finds its result at hand."""
    entries = [catalogue.solver(name).entry for name in solvers]
    on_two_processes([Request(entry.name, entry.config()) for entry in entries if not entry.one_process])
    tried_at_import(*{catalogue.dataset(name).entry.factory.__module__ for name in datasets})
