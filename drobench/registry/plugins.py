"""Reading one plugin, whatever it does.

A plugin is somebody else's code: it may fail to import, hang, end the program, misspell a hook or return nonsense. Each
of these becomes a `Trouble` that says what happened, and what is sound in the plugin stays usable.
"""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pluggy

from drobench.reasons import reason_of
from drobench.registry import hookspecs
from drobench.registry.entries import Entry
from drobench.registry.exits import exits_raise, way_to_end
from drobench.registry.hints import did_you_mean
from drobench.registry.hookspecs import (
    API_ATTRIBUTE,
    ENTRY_OF_HOOK,
    OLDEST_PLUGIN_API,
    PLUGIN_API,
    PROJECT,
    UNDECLARED_PLUGIN_API,
)
from drobench.registry.process_state import current_state, set_back
from drobench.registry.time_limit import TimeLimitExpired, time_limit

DISABLE_VARIABLE = "DROBENCH_DISABLE_PLUGINS"
TIMEOUT_VARIABLE = "DROBENCH_PLUGIN_TIMEOUT"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a plugin comes from and how to get hold of it.

    Attributes:
        plugin: The plugin's name, which for an installed package is that of its entry point.
        distribution: The package that brings it.
        version: That package's version.
        loader: Imports the plugin and returns it, a module as a rule.
    """

    plugin: str
    distribution: str
    version: str
    loader: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} (plugin {self.plugin!r})"


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Something in a plugin that could not be used, for a person to read.

    Attributes:
        plugin: The plugin's name; empty if the trouble is with the package itself.
        distribution: The package that brings it.
        message: What happened and what to do.
        details: The traceback where there is one, for whoever repairs the plugin.
    """

    plugin: str
    distribution: str
    message: str
    details: str = field(default="", repr=False)

    def __str__(self) -> str:
        subject = f"plugin {self.plugin!r} of {self.distribution}" if self.plugin else self.distribution
        return f"{subject}: {self.message}"


class PluginContent(NamedTuple):
    """What came of reading one plugin."""

    entries: list[Entry]
    """What can be used."""
    troubles: list[Trouble]
    """A report of everything that cannot."""
    api: int | None
    """The version of the plugin interface it was made for; `None` if it could not be found out."""


def read_plugin(source: Source, seconds: float) -> PluginContent:
    """Load one plugin and call its hooks, if it was made for a version of the interface that is here.

    Args:
        source: The plugin.
        seconds: Time limit for its import, and again for each of its hooks; zero means none.
    """
    reading = _Reading(source, seconds)
    reading.read()
    return PluginContent(reading.entries, reading.troubles, reading.api)


class _Reading:
    """The reading of one plugin: what it gave, and what went wrong."""

    def __init__(self, source: Source, seconds: float) -> None:
        self.source = source
        self.seconds = seconds
        self.entries: list[Entry] = []
        self.troubles: list[Trouble] = []
        self.api: int | None = None

    def read(self) -> None:
        plugin: object = None
        implementations: Mapping[str, str] = {}
        with self._reporting("its import"):
            plugin = self.source.loader()
            if not self._fits(getattr(plugin, API_ATTRIBUTE, UNDECLARED_PLUGIN_API)):
                return
            implementations = _implementations(plugin)
            self._report_unmarked(plugin, implementations)
        if not implementations and not self.troubles:
            self._report(
                f"has no hook. Expected at least one function marked with `hookimpl` and called {_hook_names()}; "
                f"found {type(plugin).__name__} without any."
            )
        for attribute, hook in implementations.items():
            if hook in ENTRY_OF_HOOK:
                self._call(plugin, attribute, hook)
            else:
                self._report(
                    f"there is no hook called {hook!r}.{did_you_mean(hook, ENTRY_OF_HOOK)} Expected {_hook_names()}. "
                    "Rename the function; the plugin's other hooks are used."
                )

    def _fits(self, declared: object) -> bool:
        """Tell whether the interface here is one that the plugin was made for; if not, say what to do."""
        if not isinstance(declared, int) or isinstance(declared, bool):
            self._report(
                f"`{API_ATTRIBUTE}` must be the whole number of the plugin API it was made for, such as {PLUGIN_API}; "
                f"found {declared!r}. Correct it in the module that the entry point names; until then {self._remedy()}"
            )
            return False
        self.api = declared
        if declared > PLUGIN_API:
            self._report(
                f"was made for plugin API {declared}, and this drobench has {_versions_here()}. Upgrade drobench, or "
                f"install an older release of {self.source.distribution}."
            )
        elif declared < OLDEST_PLUGIN_API:
            self._report(
                f"was made for plugin API {declared}, which this drobench no longer has: it has {_versions_here()}. "
                f"Upgrade {self.source.distribution}, or ask its author for a release that declares "
                f"`{API_ATTRIBUTE} = {PLUGIN_API}`."
            )
        return OLDEST_PLUGIN_API <= declared <= PLUGIN_API

    def _report_unmarked(self, plugin: object, implementations: Mapping[str, str]) -> None:
        for hook in ENTRY_OF_HOOK:
            if hook not in implementations and callable(getattr(plugin, hook, None)):
                self._report(f"`{hook}` is not marked as a hook and was ignored. Decorate it with `hookimpl`.")

    def _call(self, plugin: object, attribute: str, hook: str) -> None:
        with self._reporting(f"its hook `{hook}`"):
            manager = _SingleHookManager(attribute)
            manager.register(plugin, self.source.plugin)
            results = getattr(manager.hook, hook)()
            # pluggy leaves a result of None out.
            self._take(hook, results[0] if results else None)

    def _take(self, hook: str, returned: object) -> None:
        expected = ENTRY_OF_HOOK[hook]
        if not isinstance(returned, list):
            self._report(
                f"`{hook}` must return a list of {expected.__name__}; found {type(returned).__name__}. "
                "Return a list, if need be an empty one."
            )
            return
        for element in returned:
            if isinstance(element, expected):
                self.entries.append(element)
            else:
                self._report(f"`{hook}` must return a list of {expected.__name__}; {_found(element)}")

    @contextmanager
    def _reporting(self, doing: str) -> Iterator[None]:
        """Turn whatever goes wrong in the block into a trouble, so that the other plugins are still read."""
        before = current_state()
        try:
            with time_limit(self.seconds), exits_raise():
                yield
        except KeyboardInterrupt:
            raise
        except TimeLimitExpired as error:
            self._report(
                f"{doing} took longer than {self.seconds:g} s and was stopped. If it is only slow, set "
                f"{TIMEOUT_VARIABLE} to more seconds; {self._remedy()}",
                error,
            )
        except SystemExit as error:
            self._report(f"{doing} tried to end the program ({way_to_end(error)}). To go on, {self._remedy()}", error)
        # Some libraries raise outside `Exception`: a panic in a Rust extension, or a skipped test.
        except BaseException as error:
            self._report(f"{doing} failed with {_describe(error)}.{_misses(error)} To go on, {self._remedy()}", error)
        for change in set_back(before):
            self._report(
                f"{doing} changed {change}, which is for the whole program and was set back. Let the plugin do that "
                "inside its own functions, for as long as they run."
            )

    def _remedy(self) -> str:
        return f"repair or uninstall it, or leave it out with {DISABLE_VARIABLE}={self.source.plugin}."

    def _report(self, message: str, error: BaseException | None = None) -> None:
        details = "" if error is None else "".join(traceback.format_exception(error))
        self.troubles.append(
            Trouble(
                plugin=self.source.plugin,
                distribution=self.source.distribution,
                message=message,
                details=details,
            )
        )


class _SingleHookManager(pluggy.PluginManager):
    """A manager that sees one attribute of a plugin.

    pluggy refuses a whole plugin when one hook has a wrong signature, and a wrapper of one plugin could change what
    another returns. One manager per hook keeps each failure where it belongs.
    """

    def __init__(self, attribute: str) -> None:
        super().__init__(PROJECT)
        self._attribute = attribute
        self.add_hookspecs(hookspecs)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        return super().parse_hookimpl_opts(plugin, name) if name == self._attribute else None


def _implementations(plugin: object) -> dict[str, str]:
    """Return the attributes of a plugin that are marked as hooks, each with the name of its hook."""
    manager = pluggy.PluginManager(PROJECT)
    found: dict[str, str] = {}
    for attribute in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, attribute)
        if options is None:
            continue
        hook = options.get("specname") or attribute
        # An optional hook is one that its author knows may not exist in this version.
        if hook in ENTRY_OF_HOOK or not options.get("optionalhook"):
            found[attribute] = hook
    return found


def _found(element: object) -> str:
    for hook, expected in ENTRY_OF_HOOK.items():
        if isinstance(element, expected):
            return f"found {expected.__name__} {element.name!r}. Return it from `{hook}`."
    return f"found an element of type {type(element).__name__}, which was left out."


def _misses(error: BaseException) -> str:
    """Say so where a plugin asks drobench for a name that is not there: it cannot declare a version any more."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == PROJECT:
        return f" It was made for another release of drobench; this one has plugin API {_versions_here()}."
    return ""


def _versions_here() -> str:
    return str(PLUGIN_API) if OLDEST_PLUGIN_API == PLUGIN_API else f"{OLDEST_PLUGIN_API} to {PLUGIN_API}"


def _hook_names() -> str:
    *others, last = (f"`{hook}`" for hook in ENTRY_OF_HOOK)
    return f"{', '.join(others)} or {last}"


def _describe(error: BaseException) -> str:
    return " ".join(reason_of(error).split()).removesuffix(":")
