"""Reading one plugin, whatever it does.

A plugin is somebody else's code: it may fail to import, hang, end the program, misspell a hook or return nonsense. Each
of these becomes a `Trouble` that says what happened, and what is sound in the plugin stays usable.
"""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pluggy

from drobench.registry import hookspecs
from drobench.registry.entries import Entry
from drobench.registry.hints import did_you_mean
from drobench.registry.hookspecs import ENTRY_OF_HOOK, PROJECT
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


def read_plugin(source: Source, seconds: float) -> tuple[list[Entry], list[Trouble]]:
    """Load one plugin and call its hooks.

    Args:
        source: The plugin.
        seconds: Time limit for its import, and again for each of its hooks; zero means none.

    Returns:
        The entries that can be used, and a report of everything that cannot.
    """
    reading = _Reading(source, seconds)
    reading.read()
    return reading.entries, reading.troubles


class _Reading:
    """The reading of one plugin: what it gave, and what went wrong."""

    def __init__(self, source: Source, seconds: float) -> None:
        self.source = source
        self.seconds = seconds
        self.entries: list[Entry] = []
        self.troubles: list[Trouble] = []

    def read(self) -> None:
        plugin: object = None
        implementations: Mapping[str, str] = {}
        with self._reporting("its import"):
            plugin = self.source.loader()
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
        try:
            with time_limit(self.seconds):
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
            self._report(f"{doing} tried to end the program ({_describe(error)}). To go on, {self._remedy()}", error)
        # Some libraries raise outside `Exception`: a panic in a Rust extension, or a skipped test.
        except BaseException as error:
            self._report(f"{doing} failed with {_describe(error)}. To go on, {self._remedy()}", error)

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


def _hook_names() -> str:
    *others, last = (f"`{hook}`" for hook in ENTRY_OF_HOOK)
    return f"{', '.join(others)} or {last}"


def _describe(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:
        # An exception of somebody else's making may fail even at this.
        text = "(its text cannot be printed)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
