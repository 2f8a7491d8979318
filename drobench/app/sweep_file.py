"""The file of a sweep: what it may say, and the cells that it stands for.

A sweep file has a `title`, a `description`, common `overrides`, a `grid` of values per key, and optionally a list of
`parts` with further `overrides` and `grid`s, whose cells are joined. A value of a grid that is a mapping sets several
keys together, and the grid's key is then only a name for them. With `include` it consists of the cells of other
sweeps, to which its own overrides are added.
"""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drobench.app.config import as_override, data_dir
from drobench.app.overrides import shown
from drobench.app.plain_yaml import INTERPOLATION, read_plain_yaml, texts
from drobench.errors import DrobenchError
from drobench.registry.hints import did_you_mean

_SWEEP_KEYS = {"title", "description", "overrides", "grid", "parts", "timeout", "include"}
_PART_KEYS = {"overrides", "grid"}
# Of a file; a long one of ours has 5 kB.
_LARGEST = 1 << 18
MOST_CELLS = 100_000
# Of values within the file; each may double what it is about, so that more of them could stand for anything.
_MOST_INTERPOLATIONS = 20


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
    """Read and expand a sweep file.

    Raises:
        DrobenchError: If it cannot be read, or says what makes no sense.
    """
    return _load(path, (), {})


def _load(path: Path, above: tuple[Path, ...], known: dict[Path, Sweep]) -> Sweep:
    """Read a file that those in `above` include, unless it is known."""
    place = path.resolve()
    if place in above:
        names = " -> ".join(file.name for file in (*above[above.index(place) :], place))
        raise DrobenchError(f"Sweep file {above[-1]} includes itself: {names}. Take one of them out.")
    if place not in known:
        known[place] = _expanded(path, _content(path), (*above, place), known)
    return known[place]


def _content(path: Path) -> dict[str, Any]:
    what = f"Sweep file {path}"
    try:
        if path.stat().st_size > _LARGEST:
            raise DrobenchError(f"{what} must have at most {_LARGEST} bytes; found {path.stat().st_size}.")
        plain = read_plain_yaml(path.read_text(encoding="utf-8"), what)
        followed = sum(text.count(INTERPOLATION) - text.count(f"\\{INTERPOLATION}") for _, text in texts(plain))
        if followed > _MOST_INTERPOLATIONS:
            raise DrobenchError(
                f"{what} must have at most {_MOST_INTERPOLATIONS} interpolations; found {followed}. One that is meant "
                "for the runs is written \\${...}."
            )
        content: Any = plain
        if isinstance(plain, dict | list):
            content = OmegaConf.to_container(OmegaConf.create(plain), resolve=True)
    except (OmegaConfBaseException, ValueError, OSError) as error:
        raise DrobenchError(f"{what} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise DrobenchError(f"{what} must be a mapping with `overrides` and `grid`; found {shown(content)}.")
    _check_keys(path, content, _SWEEP_KEYS)
    return content


def _expanded(path: Path, content: dict[str, Any], above: tuple[Path, ...], known: dict[Path, Sweep]) -> Sweep:
    timeout = content.get("timeout")
    if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
        raise DrobenchError(f"Sweep file {path}: timeout must be seconds above 0; found {shown(timeout)}.")
    if "include" in content:
        return _joined(path, content, timeout, above, known)
    if not any(content.get(key) for key in ("overrides", "grid", "parts")):
        raise DrobenchError(
            f"Sweep file {path} is empty: it needs `grid`, `parts`, `overrides` or `include` to have any cells."
        )
    parts = content.get("parts") or [{}]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise DrobenchError(f"Sweep file {path}: parts must be a list of mappings; found {shown(parts)}.")
    common = _overrides(path, content)
    cells: list[list[str]] = []
    for part in parts:
        _check_keys(path, part, _PART_KEYS)
        grid = {**_grid(path, content), **_grid(path, part)}
        _check_number(path, len(cells) + math.prod(len(values) for values in grid.values()))
        for combination in itertools.product(*grid.values()):
            chosen = [word for key, value in zip(grid, combination, strict=True) for word in _chosen(key, value)]
            words = [*common, *_overrides(path, part), *chosen]
            cells.append(_groups_first(words))
    return Sweep(str(content.get("title", path.stem)), str(content.get("description", "")), cells, timeout, path.stem)


def _check_number(path: Path, cells: int) -> None:
    if cells > MOST_CELLS:
        raise DrobenchError(
            f"Sweep file {path} stands for more than {MOST_CELLS} cells. Make several smaller ones of it."
        )


def _joined(
    path: Path, content: dict[str, Any], timeout: float | None, above: tuple[Path, ...], known: dict[Path, Sweep]
) -> Sweep:
    """Return the cells of the included sweeps, with the overrides of this one after their own."""
    names = content["include"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise DrobenchError(f"Sweep file {path}: include must list names of sweeps; found {shown(names)}.")
    beside = sorted({"grid", "parts"} & set(content))
    if beside:
        raise DrobenchError(
            f"Sweep file {path}: include leaves no room for {' and '.join(beside)}. Use one or the other."
        )
    included = [_load(find_sweep(name), above, known) for name in names]
    _check_number(path, sum(len(sweep.cells) for sweep in included))
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
        raise DrobenchError(f"Sweep file {path}: overrides must be a list of KEY=VALUE texts; found {shown(words)}.")
    return words


def _grid(path: Path, content: dict[str, Any]) -> dict[str, list[Any]]:
    grid = content.get("grid") or {}
    if not isinstance(grid, dict):
        raise DrobenchError(f"Sweep file {path}: grid must map keys to lists of values; found {shown(grid)}.")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise DrobenchError(
                f"Sweep file {path}: grid key {shown(key)} must list its values; found {shown(values)}."
            )
    return grid


def _chosen(key: str, value: Any) -> list[str]:
    """Return the overrides that one value of a grid stands for."""
    settings = value if isinstance(value, dict) else {key: value}
    return [f"{name}={as_override(setting)}" for name, setting in settings.items()]


def _check_keys(path: Path, content: dict[str, Any], allowed: set[str]) -> None:
    for key in content:
        if key not in allowed:
            hint = did_you_mean(str(key), allowed)
            raise DrobenchError(
                f"Sweep file {path}: unknown key {shown(key)}.{hint} Keys are {', '.join(sorted(allowed))}."
            )
