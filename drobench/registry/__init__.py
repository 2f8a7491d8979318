"""Plugins: what they hand over, how they are found, and what is installed."""

from drobench.registry.catalogue import (
    Catalogue,
    InstalledPlugin,
    NeedsNotMet,
    Registered,
    Source,
    Trouble,
    UnknownName,
    build_catalogue,
    load_catalogue,
)
from drobench.registry.entries import (
    DatasetEntry,
    Entry,
    EntryError,
    LoggerEntry,
    LossEntry,
    ModelEntry,
    ProblemEntry,
    ReformulationEntry,
    SolverEntry,
)
from drobench.registry.hookspecs import PLUGIN_API, hookimpl, hookspec
from drobench.registry.listing import list_catalogue
from drobench.registry.requirements import check_requirements

__all__ = [
    "PLUGIN_API",
    "Catalogue",
    "DatasetEntry",
    "Entry",
    "EntryError",
    "InstalledPlugin",
    "LoggerEntry",
    "LossEntry",
    "ModelEntry",
    "NeedsNotMet",
    "ProblemEntry",
    "ReformulationEntry",
    "Registered",
    "SolverEntry",
    "Source",
    "Trouble",
    "UnknownName",
    "build_catalogue",
    "check_requirements",
    "hookimpl",
    "hookspec",
    "list_catalogue",
    "load_catalogue",
]
