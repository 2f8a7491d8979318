"""The file of a sweep: what it may say, and the cells that it stands for.

A sweep file has a `title`, a `description`, common `overrides`, a `grid` of values per key, and optionally a list of
`parts` with further `overrides` and `grid`s, whose cells are joined. A value of a grid that is a mapping sets several
keys together, and the grid's key is then only a name for them. With `include` it consists of the cells of other
sweeps, to which its own overrides are added.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drobench.app.config import as_override, data_dir
from drobench.errors import DrobenchError
from drobench.registry.hints import did_you_mean

_SWEEP_KEYS = {"title", "description", "overrides", "grid", "parts", "timeout", "include"}
_PART_KEYS = {"overrides", "grid"}


@dataclass(frozen=True)
class Sweep:
    """A sweep file, expanded."""

    title: str
    description: str
    cells: list[list[str]]
    """The overrides of each cell."""
    timeout: float | None
    name: str
    """Of the file."""


def find_sweep(name: str) -> Path:
    """Return the file of a sweep given by name (from `sweeps/`) or by path."""
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise DrobenchError(f"There is no sweep file {name!r}. Check the path.")
        return Path(name)
    known = {file.stem: file for file in sorted(data_dir("sweeps").glob("*.yaml"))}
    if name not in known:
        raise DrobenchError(
            f"There is no sweep called {name!r}.{did_you_mean(name, known)} Sweeps: {', '.join(known)}; "
            "or give the path of a YAML file."
        )
    return known[name]


def load_sweep(path: Path) -> Sweep:
    """Read and expand a sweep file."""
    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except (OmegaConfBaseException, yaml.YAMLError, ValueError, OSError) as error:
        raise DrobenchError(f"Sweep file {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise DrobenchError(f"Sweep file {path} must be a mapping with `overrides` and `grid`; found {content!r}.")
    _check_keys(path, content, _SWEEP_KEYS)
    timeout = content.get("timeout")
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise DrobenchError(f"Sweep file {path}: timeout must be seconds above 0; found {timeout!r}.")
    if "include" in content:
        return _joined(path, content, timeout)
    parts = content.get("parts") or [{}]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise DrobenchError(f"Sweep file {path}: parts must be a list of mappings; found {parts!r}.")
    common = _overrides(path, content)
    cells = []
    for part in parts:
        _check_keys(path, part, _PART_KEYS)
        grid = {**_grid(path, content), **_grid(path, part)}
        for combination in itertools.product(*grid.values()):
            chosen = [word for key, value in zip(grid, combination, strict=True) for word in _chosen(key, value)]
            words = [*common, *_overrides(path, part), *chosen]
            cells.append(_groups_first(words))
    return Sweep(str(content.get("title", path.stem)), str(content.get("description", "")), cells, timeout, path.stem)


def _joined(path: Path, content: dict[str, Any], timeout: float | None) -> Sweep:
    """Return the cells of the included sweeps, with the overrides of this one after their own."""
    names = content["include"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise DrobenchError(f"Sweep file {path}: include must list names of sweeps; found {names!r}.")
    beside = sorted({"grid", "parts"} & set(content))
    if beside:
        raise DrobenchError(
            f"Sweep file {path}: include leaves no room for {' and '.join(beside)}. Use one or the other."
        )
    files = [find_sweep(name) for name in names]
    if path.resolve() in [file.resolve() for file in files]:
        raise DrobenchError(f"Sweep file {path} includes itself.")
    included = [load_sweep(file) for file in files]
    further = _overrides(path, content)
    cells = [_groups_first([*cell, *further]) for sweep in included for cell in sweep.cells]
    # Where an override replaces what a grid went through, cells that differed before are now one.
    cells = [list(words) for words in dict.fromkeys(tuple(cell) for cell in cells)]
    longest = max((sweep.timeout for sweep in included if sweep.timeout is not None), default=None)
    title, description = str(content.get("title", path.stem)), str(content.get("description", ""))
    return Sweep(title, description, cells, timeout or longest, path.stem)


def _groups_first(words: list[str]) -> list[str]:
    """Return the last override of each key, choices of groups first: such a choice would undo a setting made for it."""
    last = {word.split("=", 1)[0]: word for word in words}
    return sorted(last.values(), key=lambda word: "." in word.split("=", 1)[0])


def _overrides(path: Path, content: dict[str, Any]) -> list[str]:
    words = content.get("overrides") or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise DrobenchError(f"Sweep file {path}: overrides must be a list of KEY=VALUE texts; found {words!r}.")
    return words


def _grid(path: Path, content: dict[str, Any]) -> dict[str, list[Any]]:
    grid = content.get("grid") or {}
    if not isinstance(grid, dict):
        raise DrobenchError(f"Sweep file {path}: grid must map keys to lists of values; found {grid!r}.")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise DrobenchError(f"Sweep file {path}: grid key {key!r} must list its values; found {values!r}.")
    return grid


def _chosen(key: str, value: Any) -> list[str]:
    """Return the overrides that one value of a grid stands for."""
    settings = value if isinstance(value, dict) else {key: value}
    return [f"{name}={as_override(setting)}" for name, setting in settings.items()]


def _check_keys(path: Path, content: dict[str, Any], allowed: set[str]) -> None:
    for key in content:
        if key not in allowed:
            hint = did_you_mean(str(key), allowed)
            raise DrobenchError(f"Sweep file {path}: unknown key {key!r}.{hint} Keys are {', '.join(sorted(allowed))}.")
