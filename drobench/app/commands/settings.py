"""`drobench help`: what there is, and what its settings mean."""

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from drobench.app.commands.parsing import AddCommand
from drobench.errors import DrobenchError

if TYPE_CHECKING:
    from rich.console import Console

    from drobench.app.setting_texts import Kind
    from drobench.registry import Registered
    from drobench.registry.explanations import Setting


def add_commands(add: AddCommand) -> None:
    """Add the command of this family."""
    parser = add("help", explain, "explain plugins and settings", "drobench help solver gcivr step_size")
    parser.add_argument("kind", nargs="?", help="solver, problem, budget, ...; none: list them")
    parser.add_argument("name", nargs="?", help="a plugin, or a setting")
    parser.add_argument("setting", nargs="?", help="one setting of the plugin")


def explain(options: argparse.Namespace) -> int:
    """Print what was asked for; a dotted word is that of a configuration: `budget.passes`."""
    from drobench.app.console import open_console
    from drobench.app.setting_texts import RUN, kinds_of
    from drobench.registry import list_catalogue

    console, kinds = open_console(), kinds_of(list_catalogue())
    words = [word for word in (options.kind, options.name, options.setting) if word is not None]
    asked = [part for word in words for part in word.split(".")]
    if not asked:
        _list_kinds(console, kinds)
    elif asked[0] in kinds:
        _explain_kind(console, asked[0], kinds[asked[0]], asked[1:])
    elif len(asked) == 1 and asked[0] in (setting.name for setting in kinds[RUN].settings):
        _explain_kind(console, RUN, kinds[RUN], asked)
    else:
        _refuse("kind or setting", asked[0], [*kinds, *(setting.name for setting in kinds[RUN].settings)])
    return 0


def _list_kinds(console: "Console", kinds: "dict[str, Kind]") -> None:
    from drobench.app.console import table

    rows = [[name, ", ".join(kind.plugins or [item.name for item in kind.settings])] for name, kind in kinds.items()]
    console.print(table(None, ["kind", "what there is"], rows))
    console.print("`drobench help KIND NAME` explains one, `drobench help KIND NAME SETTING` one setting of it.")


def _explain_kind(console: "Console", name: str, kind: "Kind", words: Sequence[str]) -> None:
    settings = {setting.name: setting for setting in kind.settings}
    if not words:
        _show_kind(console, name, kind)
    elif len(words) == 1 and words[0] in settings:
        _show_settings(console, _prefix(name), [settings[words[0]]])
    elif words[0] in kind.plugins:
        _explain_plugin(console, name, kind.plugins[words[0]], words[1:])
    elif len(words) == 1 and (having := _having(kind, words[0])):
        _show_owners(console, f"{name}.{words[0]}", having)
    else:
        of_plugins = (setting.name for it in kind.plugins.values() for setting in _settings(it))
        what = f"{name} or setting of one" if kind.plugins else f"setting in {name}"
        _refuse(what, words[0], [*kind.plugins, *settings, *of_plugins])


def _show_kind(console: "Console", name: str, kind: "Kind") -> None:
    from drobench.app.console import table

    if kind.plugins:
        rows = [[called, found.entry.summary] for called, found in kind.plugins.items()]
        console.print(table(f"{name}=NAME", ["name", "what it is"], rows))
    if kind.settings:
        _show_settings(console, _prefix(name), kind.settings)


def _explain_plugin(console: "Console", kind: str, found: "Registered[Any]", words: Sequence[str]) -> None:
    from rich.markup import escape

    entry = found.entry
    settings = {setting.name: setting for setting in _settings(found)}
    if words:
        if len(words) > 1 or words[0] not in settings:
            _refuse(f"setting of {kind} {entry.name!r}", ".".join(words), list(settings))
        _show_settings(console, f"{kind}.", [settings[words[0]]])
        return
    console.print(f"[bold]{kind} {escape(entry.name)}[/bold]  {escape(entry.summary)}", soft_wrap=True)
    if entry.reference:
        console.print(f"[dim]{escape(entry.reference)}[/dim]", soft_wrap=True)
    console.print(f"[dim]from {escape(str(found))}[/dim]", soft_wrap=True)
    if settings:
        _show_settings(console, f"{kind}.", settings.values())
    else:
        console.print("It has no settings.")


def _show_settings(console: "Console", prefix: str, settings: "Iterable[Setting]") -> None:
    from drobench.app.console import table
    from drobench.app.setting_texts import written

    rows = [[prefix + item.name, item.type, written(item.default), item.text or "-"] for item in settings]
    console.print(table(None, ["setting", "takes", "default", "what it means"], rows))


def _show_owners(console: "Console", key: str, having: "list[tuple[str, Setting]]") -> None:
    from drobench.app.console import table
    from drobench.app.setting_texts import written

    rows = [[name, item.type, written(item.default), item.text or "-"] for name, item in having]
    console.print(table(f"{key} of", ["name", "takes", "default", "what it means"], rows))


def _having(kind: "Kind", setting: str) -> "list[tuple[str, Setting]]":
    return [(name, item) for name, found in kind.plugins.items() for item in _settings(found) if item.name == setting]


def _settings(found: "Registered[Any]") -> "list[Setting]":
    from drobench.registry.explanations import settings_of

    return settings_of(found.entry.config)


def _prefix(kind: str) -> str:
    from drobench.app.setting_texts import RUN

    return "" if kind == RUN else f"{kind}."


def _refuse(what: str, word: str, known: Sequence[str]) -> NoReturn:
    from drobench.registry.hints import did_you_mean

    raise DrobenchError(
        f"There is no {what} called {word!r}.{did_you_mean(word, known)} `drobench help` lists what there is."
    )
