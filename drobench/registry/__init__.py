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
    no_files,
)
from drobench.registry.hookspecs import PLUGIN_API, hookimpl, hookspec
from drobench.registry.listing import Listing, find_listing, list_catalogue, packages_here, state_here
from drobench.registry.requirements import check_requirements

__all__ = [
    "PLUGIN_API",
    "Catalogue",
    "DatasetEntry",
    "Entry",
    "EntryError",
    "InstalledPlugin",
    "Listing",
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
    "find_listing",
    "hookimpl",
    "hookspec",
    "list_catalogue",
    "load_catalogue",
    "no_files",
    "packages_here",
    "state_here",
]
