"""What may stand next on a command line that begins as typed."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from drobench.app.commands.parsing import results_of

if TYPE_CHECKING:
    from drobench.app.setting_texts import Kind

_HYDRA_FLAGS = ("--cfg", "--help", "--info", "--multirun", "--resolve", "-m")
_RUNS = "runs"
_PLUGINS = "plugins"
_WORDS: Mapping[tuple[str, str], str] = {
    ("show", "run_id"): _RUNS,
    ("rerun", "run_id"): _RUNS,
    ("diff", "first"): _RUNS,
    ("diff", "second"): _RUNS,
    ("remove", "run_ids"): _RUNS,
    ("export", "run_id"): _RUNS,
    ("check", "name"): _PLUGINS,
    ("sweep", "name"): "sweeps",
    ("sweep", "overrides"): "overrides",
    ("help", "kind"): "kinds",
    ("help", "name"): "of kind",
}
"""What the arguments of commands are, where their parsers do not list it."""


def candidates(words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """Return what the last word may become, in alphabetical order.

    Args:
        words: Those after `drobench`, the last one as far as it is typed, maybe empty.
        parser: That of all commands.
    """
    *before, last = words
    found = _of_run(before[1:], last) if before[:1] == ["run"] else _of_parser(parser, before, last)
    return sorted({word for word in found if word.startswith(last)})


def _of_parser(parser: argparse.ArgumentParser, before: Sequence[str], last: str) -> Iterable[str]:
    command, rest = "", list(before)
    while rest and (inner := _commands(parser).get(rest[0])):
        command, parser = rest.pop(0), inner
    options = {word: action for action in parser._actions for word in action.option_strings}
    if rest and rest[-1] in options and options[rest[-1]].nargs != 0:
        return map(str, options[rest[-1]].choices or ())
    if last.startswith("-"):
        return options
    arguments = [action for action in parser._actions if not action.option_strings]
    # Words that are no options, nor what an option takes.
    typed = [
        word
        for place, word in enumerate(rest)
        if not word.startswith("-") and not (place and getattr(options.get(rest[place - 1]), "nargs", 0) != 0)
    ]
    if not arguments or (len(typed) >= len(arguments) and arguments[-1].nargs not in ("*", "+")):
        return ()
    action = arguments[min(len(typed), len(arguments) - 1)]
    if action.choices:
        return map(str, action.choices)
    return _named(_WORDS.get((command, action.dest), ""), typed, last, rest)


def _commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _named(what: str, typed: Sequence[str], last: str, rest: Sequence[str]) -> Iterable[str]:
    if what == _RUNS:
        return _stored_runs(rest)
    if what == "sweeps":
        from drobench.app.config import data_dir

        return [file.stem for file in data_dir("sweeps").glob("*.yaml")]
    if what == "overrides":
        return _of_run(typed, last)
    if what:
        kinds = _kinds()
        if what == _PLUGINS:
            return [name for kind in kinds.values() for name in kind.plugins]
        if what == "kinds":
            return kinds
        kind = kinds.get(typed[0]) if typed else None
        return [] if kind is None else [*kind.plugins, *(setting.name for setting in kind.settings)]
    return ()


def _stored_runs(rest: Sequence[str]) -> list[str]:
    from pathlib import Path

    from drobench.results.record import is_run_id, short_id

    given = [Path(word) for option, word in pairwise(rest) if option == "--results"]
    folder = results_of(argparse.Namespace(results=given[-1] if given else None))
    return [short_id(it.name) for it in folder.iterdir() if is_run_id(it.name)] if folder.is_dir() else []


def _of_run(before: Sequence[str], last: str) -> Iterable[str]:
    """Return words of a configuration: choices of groups, settings of what is chosen, and Hydra's flags."""
    from drobench.app.config import group_names
    from drobench.registry import list_catalogue

    if last.startswith("-"):
        return _HYDRA_FLAGS
    groups = group_names(list_catalogue())
    key, equals, value = last.partition("=")
    if equals:
        # Of a multirun several, separated by commas.
        head = key + "=" + value[: value.rfind(",") + 1]
        return [head + name for name in groups.get(key, _values(key, before))]
    return [*(f"{group}=" for group in groups), *(f"{name}=" for name in _settings(before))]


def _values(key: str, before: Sequence[str]) -> list[str]:
    return ["false", "true"] if _settings(before).get(key) == "bool" else []


def _settings(before: Sequence[str]) -> dict[str, str]:
    """Return the type of each setting, by its dotted name."""
    from drobench.app.setting_texts import RUN
    from drobench.registry.explanations import settings_of

    chosen = {**_defaults(), **dict(word.split("=", 1) for word in before if "=" in word)}
    found: dict[str, str] = {}
    for name, kind in _kinds().items():
        prefix = "" if name == RUN else f"{name}."
        plugin = kind.plugins.get(chosen.get(name, ""))
        settings = kind.settings if plugin is None else settings_of(plugin.entry.config)
        found.update({prefix + setting.name: setting.type for setting in settings})
    return found


def _defaults() -> dict[str, str]:
    import yaml

    from drobench.app.config import CONFIG_NAME, data_dir

    listed = yaml.safe_load((data_dir("conf") / f"{CONFIG_NAME}.yaml").read_text(encoding="utf-8"))["defaults"]
    return {group: name for item in listed if isinstance(item, dict) for group, name in item.items() if name}


def _kinds() -> "dict[str, Kind]":
    from drobench.app.setting_texts import kinds_of
    from drobench.registry import list_catalogue

    return kinds_of(list_catalogue())
