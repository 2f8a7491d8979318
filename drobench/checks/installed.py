"""The checks of what is installed, as classes that pytest collects."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from drobench.checks.dataset_checks import DatasetChecks
from drobench.checks.loss_checks import LossChecks
from drobench.checks.model_checks import ModelChecks
from drobench.checks.no_network import tried_at_import
from drobench.checks.problem_checks import ProblemChecks
from drobench.checks.reformulation_checks import ReformulationChecks
from drobench.checks.solver_checks import SolverChecks
from drobench.checks.subject import Checks
from drobench.checks.two_ranks import Request, on_two_processes
from drobench.data.dataset import Dataset
from drobench.errors import SettingError
from drobench.registry import Catalogue

KINDS: Mapping[str, type[Checks]] = MappingProxyType(
    {
        "solver": SolverChecks,
        "problem": ProblemChecks,
        "dataset": DatasetChecks,
        "model": ModelChecks,
        "loss": LossChecks,
        "reformulation": ReformulationChecks,
    }
)

# What the checks of a kind do with data that they are given.
_ON_DATA: Mapping[str, Callable[[Dataset], dict[str, Any]]] = MappingProxyType(
    {"problem": lambda dataset: {"dataset": dataset}, "model": lambda dataset: {"shape": dataset.input_shape}}
)


def checks_of(
    kind: str, name: str, settings: Mapping[str, Any] = MappingProxyType({}), dataset: Dataset | None = None
) -> type[Checks]:
    """Return the checks of one installed thing, as its author would have written them."""
    title = "".join(part.capitalize() for part in (kind, *name.split("_")))
    given = {} if dataset is None else _ON_DATA[kind](dataset)
    return type(f"Test{title}", (KINDS[kind],), {"name": name, "settings": dict(settings), **given})


def checks_called(
    name: str,
    catalogue: Catalogue,
    settings: Mapping[str, Any] = MappingProxyType({}),
    dataset: Dataset | None = None,
) -> dict[str, type[Checks]]:
    """Return the checks of everything called `name`, by the names of the classes; empty if there is no such thing.

    Args:
        name: The name.
        catalogue: What is installed.
        settings: Settings to build it with.
        dataset: Data to try it on.

    Raises:
        DrobenchError: It is not tried on data, or not on these.
    """
    kinds = [kind for kind in KINDS if name in catalogue.of_kind(kind)]
    if dataset is not None:
        for kind in kinds:
            _refuse_data(kind, name, catalogue, dataset)
    found = [checks_of(kind, name, settings, dataset) for kind in kinds]
    return {made.__name__: made for made in found}


def _refuse_data(kind: str, name: str, catalogue: Catalogue, dataset: Dataset) -> None:
    if kind not in _ON_DATA:
        raise SettingError(
            f"A {kind} is not tried on a dataset: `--dataset` is for {' and '.join(f'{kind}s' for kind in _ON_DATA)}; "
            f"found {kind} {name!r}. Leave `--dataset` out."
        )
    missing = catalogue.find(kind, name).entry.needs - dataset.provides
    if missing:
        raise SettingError(
            f"The {kind} {name!r} needs {', '.join(sorted(missing))}, which dataset {dataset.name!r} does not provide. "
            "Choose another with `--dataset`."
        )


def start_together(catalogue: Catalogue, solvers: Iterable[str], datasets: Iterable[str]) -> None:
    """Let checks of many subjects share the processes they need; each then finds its result at hand."""
    entries = [catalogue.solver(name).entry for name in solvers]
    on_two_processes([Request(entry.name, entry.config()) for entry in entries if not entry.one_process])
    tried_at_import(*{catalogue.dataset(name).entry.factory.__module__ for name in datasets})
