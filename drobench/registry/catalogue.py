"""The catalogue: everything that is installed, by kind and name, and what could not be used.

Plugins are found through the entry points of the group `drobench`, read one by one, and never silently preferred: a
name that two plugins claim is reported.
"""

import functools
import importlib.metadata
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from drobench.errors import DrobenchError, SettingError
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
from drobench.registry.hints import did_you_mean
from drobench.registry.plugins import DISABLE_VARIABLE, TIMEOUT_VARIABLE, Source, Trouble, read_plugin

__all__ = [
    "DISABLE_VARIABLE",
    "TIMEOUT_VARIABLE",
    "Catalogue",
    "InstalledPlugin",
    "NeedsNotMet",
    "Registered",
    "Source",
    "Trouble",
    "UnknownName",
    "build_catalogue",
    "load_catalogue",
]

ENTRY_POINT_GROUP = "drobench"
OWN_DISTRIBUTION = "drobench"
DEFAULT_TIMEOUT = 30.0

AnyEntry_co = TypeVar("AnyEntry_co", bound=Entry, covariant=True)
OneKind = TypeVar("OneKind", bound=Entry)


class UnknownName(DrobenchError):
    """No installed plugin offers a thing of this kind and name."""


class NeedsNotMet(DrobenchError):
    """A combination makes no sense: the data lack what the problem needs, or the problem what the solver needs."""


@dataclass(frozen=True)
class Registered(Generic[AnyEntry_co]):
    """An entry and where it comes from.

    Attributes:
        entry: What the plugin handed over.
        plugin: The plugin's name.
        distribution: The package that brings the plugin.
        version: That package's version; with the distribution it is part of a run's identity.
    """

    entry: AnyEntry_co
    plugin: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} (plugin {self.plugin!r})"


@dataclass(frozen=True)
class InstalledPlugin:
    """A plugin that was read, whether or not it could be used.

    Attributes:
        plugin: The plugin's name.
        distribution: The package that brings it.
        version: That package's version.
        api: The version of the plugin interface it was made for; `None` if it could not be found out.
        entries: How many things it handed over.
    """

    plugin: str
    distribution: str
    version: str
    api: int | None
    entries: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Catalogue:
    """Everything the installed plugins offer, by name and in alphabetical order.

    Attributes:
        solvers: The solvers.
        problems: The problems.
        datasets: The datasets.
        models: The models.
        losses: The losses of a score and a target.
        reformulations: The steps from one form of a problem to another.
        loggers: The places that curves can go to.
        plugins: The plugins that were read.
        troubles: What could not be used.
        disabled: The names of the plugins that were left out on request.
    """

    solvers: Mapping[str, Registered[SolverEntry]]
    problems: Mapping[str, Registered[ProblemEntry]]
    datasets: Mapping[str, Registered[DatasetEntry]]
    models: Mapping[str, Registered[ModelEntry]] = field(default_factory=dict)
    losses: Mapping[str, Registered[LossEntry]] = field(default_factory=dict)
    reformulations: Mapping[str, Registered[ReformulationEntry]] = field(default_factory=dict)
    loggers: Mapping[str, Registered[LoggerEntry]] = field(default_factory=dict)
    plugins: tuple[InstalledPlugin, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    disabled: tuple[str, ...] = ()

    def solver(self, name: str) -> Registered[SolverEntry]:
        """Return the solver called `name`, or raise `UnknownName`."""
        return self._find("solver", name, self.solvers)

    def problem(self, name: str) -> Registered[ProblemEntry]:
        """Return the problem called `name`, or raise `UnknownName`."""
        return self._find("problem", name, self.problems)

    def dataset(self, name: str) -> Registered[DatasetEntry]:
        """Return the dataset called `name`, or raise `UnknownName`."""
        return self._find("dataset", name, self.datasets)

    def model(self, name: str) -> Registered[ModelEntry]:
        """Return the model called `name`, or raise `UnknownName`."""
        return self._find("model", name, self.models)

    def loss(self, name: str) -> Registered[LossEntry]:
        """Return the loss called `name`, or raise `UnknownName`."""
        return self._find("loss", name, self.losses)

    def logger(self, name: str) -> Registered[LoggerEntry]:
        """Return the logger called `name`, or raise `UnknownName`."""
        return self._find("logger", name, self.loggers)

    def of_kind(self, kind: str) -> Mapping[str, Registered[Any]]:
        """Return everything of one kind, such as `solver`."""
        found: Mapping[str, Registered[Any]] = getattr(self, _plural(kind))
        return found

    def find(self, kind: str, name: str) -> Registered[Any]:
        """Return the thing of this kind called `name`, or raise `UnknownName`."""
        return self._find(kind, name, self.of_kind(kind))

    def of_kinds(self) -> dict[str, Mapping[str, Registered[Any]]]:
        """Return everything, by the plural name of its kind."""
        return {plural: getattr(self, plural) for plural in _PLURALS.values()}

    def check_fit(self, problem_name: str, dataset_name: str, provided: frozenset[str] | None = None) -> None:
        """Raise `NeedsNotMet` unless the dataset provides all the problem needs.

        Args:
            problem_name: The problem.
            dataset_name: The dataset.
            provided: What the loaded data provide; before loading, what the dataset's entry says.
        """
        self._check_needs(f"Problem {problem_name!r}", self.problem(problem_name).entry.needs, dataset_name, provided)

    def check_model(self, model_name: str, dataset_name: str, provided: frozenset[str] | None = None) -> None:
        """Raise `NeedsNotMet` unless the dataset provides what the model takes, as `check_fit` does for problems."""
        self._check_needs(f"Model {model_name!r}", self.model(model_name).entry.needs, dataset_name, provided)

    def _check_needs(self, who: str, needs: frozenset[str], dataset_name: str, provided: frozenset[str] | None) -> None:
        missing = needs - (self.dataset(dataset_name).entry.provides if provided is None else provided)
        if not missing:
            return
        requests = self.dataset(dataset_name).entry.on_request
        settings = [f"dataset.{requests[word]}" for word in sorted(missing) if word in requests]
        if len(settings) == len(missing):
            raise NeedsNotMet(
                f"{who} needs {_listed(needs)}; dataset {dataset_name!r} provides {_listed(missing)} only when asked. "
                f"Set `{' '.join(settings)}`."
            )
        fitting = [name for name, found in self.datasets.items() if needs <= found.entry.provides]
        advice = (
            f"Installed datasets that would do: {', '.join(fitting)}." if fitting else "No installed dataset would do."
        )
        raise NeedsNotMet(
            f"{who} needs {_listed(needs)}, but dataset {dataset_name!r} does not provide {_listed(missing)}. {advice}"
        )

    def check_processes(self, solver_name: str, processes: int) -> None:
        """Raise `NeedsNotMet` where the solver has no use for several processes."""
        reason = self.solver(solver_name).entry.one_process
        if processes > 1 and reason:
            raise NeedsNotMet(
                f"Solver {solver_name!r} works on one process, and the trainer has {processes}: {reason}. "
                "Use trainer=cpu or trainer=gpu."
            )

    def _find(self, kind: str, name: str, known: Mapping[str, Registered[OneKind]]) -> Registered[OneKind]:
        if name in known:
            return known[name]
        installed = f"Installed {_plural(kind)}: {', '.join(known)}." if known else f"No {kind} is installed."
        raise UnknownName(f"There is no {kind} called {name!r}.{did_you_mean(name, known)} {installed}{self._absent()}")

    def _absent(self) -> str:
        """Say which plugins are not fully here, since what is sought may be in one of them."""
        troubled = sorted({trouble.plugin or trouble.distribution for trouble in self.troubles})
        notes = [f" Plugins with troubles (see `drobench plugins`): {', '.join(troubled)}."] if troubled else []
        if self.disabled:
            notes.append(f" Plugins left out by {DISABLE_VARIABLE}: {', '.join(self.disabled)}.")
        return "".join(notes)


_Shelves = dict[type[Entry], dict[str, Registered[Any]]]
_PLURALS: Mapping[type[Entry], str] = MappingProxyType(
    {
        SolverEntry: "solvers",
        ProblemEntry: "problems",
        DatasetEntry: "datasets",
        ModelEntry: "models",
        LossEntry: "losses",
        ReformulationEntry: "reformulations",
        LoggerEntry: "loggers",
    }
)
"""The shelf of each kind, which is an attribute of the catalogue."""


def _plural(kind: str) -> str:
    return next(plural for entry, plural in _PLURALS.items() if entry.kind == kind)


@functools.cache
def load_catalogue() -> Catalogue:
    """Return the catalogue of the installed plugins, read once per process."""
    sources, unreadable = _installed_sources()
    catalogue = build_catalogue(sources)
    return replace(catalogue, troubles=(*unreadable, *catalogue.troubles))


def build_catalogue(
    plugins: Iterable[Source], *, disabled: Collection[str] | None = None, timeout: float | None = None
) -> Catalogue:
    """Read the given plugins into a catalogue.

    Where two plugins claim a name of the same kind, drobench's own keeps it against any other; between two others the
    first by distribution and plugin name keeps it. The loser is reported.

    Args:
        plugins: The plugins; their order does not matter.
        disabled: Names of plugins to leave out unread; by default those of `DROBENCH_DISABLE_PLUGINS`.
        timeout: Seconds for a plugin's import and for each of its hooks, zero for no limit; by default
            `DROBENCH_PLUGIN_TIMEOUT`, or 30.
    """
    left_out = _disabled_by_environment() if disabled is None else frozenset(disabled)
    seconds = _checked_timeout(_timeout_of_environment() if timeout is None else timeout)
    ordered = sorted(plugins, key=_precedence)
    shelves: _Shelves = {kind: {} for kind in _PLURALS}
    installed: list[InstalledPlugin] = []
    troubles: list[Trouble] = []
    for source in ordered:
        if source.plugin in left_out:
            continue
        found = read_plugin(source, seconds)
        troubles.extend(found.troubles)
        troubles.extend(_shelve(found.entries, source, shelves))
        installed.append(
            InstalledPlugin(source.plugin, source.distribution, source.version, found.api, len(found.entries))
        )
    return Catalogue(
        **{plural: _read_only(shelves[kind]) for kind, plural in _PLURALS.items()},
        plugins=tuple(installed),
        troubles=tuple(troubles),
        disabled=tuple(source.plugin for source in ordered if source.plugin in left_out),
    )


def check_environment() -> None:
    """Refuse variables that `load_catalogue` would refuse.

    Raises:
        SettingError: If the time limit is none.
    """
    _checked_timeout(_timeout_of_environment())


def _shelve(entries: Iterable[Entry], source: Source, shelves: _Shelves) -> Iterator[Trouble]:
    """Put entries on the shelf of their kind, and yield a trouble for each whose place is taken."""
    for entry in entries:
        # Not by `entry.kind`, which a subclass in a plugin may have changed.
        kind = next(kind for kind in shelves if isinstance(entry, kind))
        shelf = shelves[kind]
        holder = shelf.get(entry.name)
        if holder is None:
            shelf[entry.name] = Registered(entry, source.plugin, source.distribution, source.version)
            continue
        yield Trouble(
            plugin=source.plugin,
            distribution=source.distribution,
            message=(
                f"its {kind.kind} {entry.name!r} was left out, because that name is taken by {holder}; "
                f"this one is from {source}. Rename it, or uninstall one of the two."
            ),
        )


def _precedence(source: Source) -> tuple[bool, str, str]:
    distribution = _canonical(source.distribution)
    return (distribution != OWN_DISTRIBUTION, distribution, source.plugin)


def _canonical(distribution: str) -> str:
    """Spell a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _read_only(shelf: Mapping[str, Registered[Any]]) -> Mapping[str, Registered[Any]]:
    return MappingProxyType(dict(sorted(shelf.items())))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _disabled_by_environment() -> frozenset[str]:
    names = (name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(","))
    return frozenset(name for name in names if name)


def _timeout_of_environment() -> float:
    text = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    try:
        return float(text) if text else DEFAULT_TIMEOUT
    except ValueError:
        raise _impossible_timeout(text) from None


def _checked_timeout(seconds: float) -> float:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise _impossible_timeout(seconds)
    return seconds


def _impossible_timeout(found: object) -> SettingError:
    return SettingError(
        f"The time limit for plugins must be a number of seconds of at least 0 (0: no limit); found {found!r}. "
        f"Change {TIMEOUT_VARIABLE} or `timeout=`."
    )


def _installed_sources() -> tuple[list[Source], list[Trouble]]:
    try:
        points: Iterable[importlib.metadata.EntryPoint] = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    except Exception:
        # One package with a damaged list of entry points spoils the common call: find out which.
        return _sources_package_by_package()
    return [_source(point) for point in points], []


def _sources_package_by_package() -> tuple[list[Source], list[Trouble]]:
    sources: dict[tuple[str, str], Source] = {}
    troubles: list[Trouble] = []
    for distribution in importlib.metadata.distributions():
        name, _ = _name_and_version(distribution)
        try:
            points = distribution.entry_points.select(group=ENTRY_POINT_GROUP)
        except Exception as error:
            troubles.append(
                Trouble(
                    plugin="",
                    distribution=name,
                    message=f"its list of entry points cannot be read ({error}). Install the package again.",
                )
            )
            continue
        for point in points:
            # A package that is on the path twice counts where it comes first, as it does for an import.
            sources.setdefault((_canonical(name), point.name), _source(point))
    return list(sources.values()), troubles


def _source(point: importlib.metadata.EntryPoint) -> Source:
    distribution, version = _name_and_version(point.dist)
    return Source(plugin=point.name, distribution=distribution, version=version, loader=point.load)


def _name_and_version(distribution: importlib.metadata.Distribution | None) -> tuple[str, str]:
    try:
        assert distribution is not None
        return distribution.name or "unknown", distribution.version or "unknown"
    except Exception:
        # Metadata may be missing or damaged, and how that shows depends on the version of Python.
        return "unknown", "unknown"
