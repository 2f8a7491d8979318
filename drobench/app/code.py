"""The code that makes a result: which files take part in a run, and their checksum.

Of drobench itself these are the rooms that compute; how results are stored, compared and shown changes none of them.
Of a plugin they are the modules of its factory and its config and everything of the same package that these import,
however far; where one of them imports by name at run time, that is the whole package. Checksums are taken once in a
process, from the files as they are when they are first asked for, which is what the process runs.
"""

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from drobench.app.config import REGISTRY_GROUPS, RunConfig
from drobench.files import file_sha256
from drobench.reformulation.names import RELAXATION
from drobench.registry import Catalogue, Registered

FRAMEWORK = "framework"
OWN_DISTRIBUTION = "drobench"
_PACKAGE = Path(__file__).resolve().parents[1]
_ROOMS = ("objective", "data", "problem", "solver", "reformulation", "training")
_FURTHER = ("app/assemble.py", "app/optimum.py")
_AT_RUN_TIME = {"import_module", "__import__", "run_module", "run_path"}

Files = dict[str, str]
"""Checksums by the name of the file, which begins with its package."""


@dataclass(frozen=True)
class Code:
    """The code of one run.

    Attributes:
        distributions: Checksum of the files that take part, by distribution.
        parts: Checksum by part: the framework, and each kind of plugin.
        versions: Version by distribution.
    """

    distributions: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def code_of(config: RunConfig, catalogue: Catalogue, route: Iterable[str] = ()) -> Code:
    """Return the code that makes the result of this run.

    Args:
        config: The run.
        catalogue: The plugins.
        route: Names of the reformulations between its problem and its solver, which are known once it is assembled;
            those of plugins take part.
    """
    found = {**plugins_of(config, catalogue), **steps_of(route, catalogue)}
    homes = {FRAMEWORK: OWN_DISTRIBUTION, **{group: plugin.distribution for group, plugin in found.items()}}
    files = {FRAMEWORK: framework_files(), **{group: plugin_files(plugin) for group, plugin in found.items()}}
    together: dict[str, Files] = {}
    for part, distribution in homes.items():
        together.setdefault(distribution, {}).update(files[part])
    versions = {plugin.distribution: plugin.version for plugin in found.values()}
    return Code(
        distributions={name: _combined(content) for name, content in sorted(together.items())},
        parts={part: _combined(content) for part, content in files.items()},
        versions={OWN_DISTRIBUTION: metadata.version(OWN_DISTRIBUTION), **versions},
    )


def problem_code(config: Any, catalogue: Catalogue) -> dict[str, str]:
    """Return the checksums of what poses a problem, by part: the framework, the problem, its model and its loss.

    Args:
        config: Whatever has a `problem` and a `model`, each with its name.
        catalogue: Where they are to be found.
    """
    found = {group: getattr(catalogue, group)(getattr(config, group).name) for group in ("problem", "model")}
    found |= _loss_of(config, catalogue)
    return {
        FRAMEWORK: _combined(framework_files()),
        **{group: _combined(plugin_files(plugin)) for group, plugin in found.items()},
    }


def plugins_of(config: RunConfig, catalogue: Catalogue) -> dict[str, Registered[Any]]:
    """Return the plugins that shape the result of this run: one of each group, and the loss if there is one."""
    found = {group: getattr(catalogue, group)(getattr(config, group).name) for group in REGISTRY_GROUPS}
    return found | _loss_of(config, catalogue)


def _loss_of(config: Any, catalogue: Catalogue) -> dict[str, Registered[Any]]:
    loss = catalogue.losses.get(getattr(config.problem, "loss", ""))
    return {} if loss is None else {"loss": loss}


def steps_of(route: Iterable[str], catalogue: Catalogue) -> dict[str, Registered[Any]]:
    """Return the plugins that bring steps of a route, by `reformulation` and the name of the step."""
    names = (step.removesuffix(RELAXATION) for step in route)
    known = catalogue.reformulations
    return {f"reformulation {name}": known[name] for name in names if name in known}


@functools.cache
def framework_files() -> Files:
    """Return the files of drobench that shape a result."""
    files = [file for room in _ROOMS for file in (_PACKAGE / room).rglob("*.py")]
    files += [_PACKAGE / name for name in _FURTHER]
    return {file.relative_to(_PACKAGE.parent).as_posix(): file_sha256(file) for file in files}


def plugin_files(plugin: Registered[Any]) -> Files:
    """Return the files of a plugin's package that shape a result."""
    factory, config = plugin.entry.factory, plugin.entry.config
    key = id(factory), id(config)
    if key not in _FOUND:
        _FOUND[key] = (factory, config, _files_of(plugin))
    return _FOUND[key][2]


# By what was imported, which is kept here so that nothing else gets its number: edits that come after are not run.
_FOUND: dict[tuple[int, int], tuple[Any, type, Files]] = {}


def homes_of(plugin: Registered[Any]) -> set[str]:
    """Return the modules that a plugin's thing is made by and configured in."""
    factory = plugin.entry.factory
    while isinstance(factory, functools.partial):
        factory = factory.func
    return {getattr(factory, "__module__", None) or type(factory).__module__, plugin.entry.config.__module__}


def _files_of(plugin: Registered[Any]) -> Files:
    return {name: sha256 for module in sorted(homes_of(plugin)) for name, sha256 in _reached_from(module).items()}


def _reached_from(module: str) -> Files:
    """Return the files of a module and of everything in its package that it imports."""
    package = module.partition(".")[0]
    waiting = list(_with_parents([module]))
    seen = {name: _file_of(name) for name in waiting}
    while waiting:
        name = waiting.pop()
        file = seen[name]
        if file is None or file.suffix != ".py":
            continue
        imported = _Imports(name, is_package=file.name == "__init__.py")
        imported.visit(ast.parse(file.read_bytes()))
        if imported.at_run_time:
            return _whole_package(package)
        for other in _with_parents(imported.names):
            if other.partition(".")[0] == package and other not in seen:
                seen[other] = _file_of(other)
                waiting.append(other)
    return {f"{name}:{file.name}": file_sha256(file) for name, file in seen.items() if file is not None}


class _Imports(ast.NodeVisitor):
    """Collects what a module imports, wherever in it; names that are no modules do no harm."""

    def __init__(self, module: str, is_package: bool) -> None:
        self.home = module if is_package else module.rpartition(".")[0]
        self.names: set[str] = set()
        self.at_run_time = False

    def visit_Import(self, node: ast.Import) -> None:  # the name that ast calls
        self.names.update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:  # the name that ast calls
        steps = self.home.split(".")
        base = ".".join(steps[: len(steps) - node.level + 1]) if node.level else ""
        origin = ".".join(part for part in (base, node.module or "") if part)
        self.names.add(origin)
        self.names.update(f"{origin}.{alias.name}" for alias in node.names)

    def visit_Call(self, node: ast.Call) -> None:  # the name that ast calls
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        self.at_run_time = self.at_run_time or called in _AT_RUN_TIME
        self.generic_visit(node)


def _with_parents(names: Iterable[str]) -> Iterator[str]:
    """Return the names and those of the packages they are in, which are imported before them."""
    for name in names:
        steps = name.split(".")
        for length in range(1, len(steps) + 1):
            yield ".".join(steps[:length])


def _file_of(module: str) -> Path | None:
    """Return the file of a module; none for a name that is no module, or has no file."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        # What was imported from a module need not be a module itself.
        return None
    return Path(found.origin) if found is not None and found.has_location and found.origin else None


def _whole_package(package: str) -> Files:
    found = importlib.util.find_spec(package)
    assert found is not None  # one of its modules was read a moment ago
    folders = [Path(folder) for folder in found.submodule_search_locations or ()]
    files = {
        f"{package}/{file.relative_to(folder).as_posix()}": file_sha256(file)
        for folder in folders
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    return files or {package: file_sha256(Path(str(found.origin)))}


def _combined(files: Files) -> str:
    """Return one checksum of many files, whatever their order."""
    digest = hashlib.sha256()
    for name, sha256 in sorted(files.items()):
        digest.update(f"{name}\0{sha256}\n".encode())
    return digest.hexdigest()
