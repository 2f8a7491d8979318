"""A package of somebody's own with one plugin, whose tests pass as they are."""

import importlib.metadata
import importlib.util
import keyword
import re
import sys
from pathlib import Path

from drobench import __version__
from drobench.errors import DrobenchError
from drobench.registry import PLUGIN_API, Catalogue, load_catalogue

KINDS = ("solver", "problem", "dataset", "model", "loss", "reformulation")
_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# These are words of the interface: classes named after them would hide what the templates import.
_WORDS = frozenset({*KINDS, "drobench", "drobench_plugins", "tests", "src"})


def write_package(kind: str, name: str, target: Path) -> int:
    """Write a package called `name` into the folder `target`, which must not exist.

    Returns:
        The number of its files.

    Raises:
        DrobenchError: The name will not do, or the folder exists or cannot be written.
    """
    _check_name(kind, name)
    if target.exists():
        raise DrobenchError(
            f"{target} exists, and nothing is overwritten. Choose another name, another --output, or remove it."
        )
    written = render(kind, name)
    try:
        for path, text in written.items():
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DrobenchError(f"{target} cannot be written ({error}). Choose another folder with --output.") from error
    return len(written)


def words_of_a_run(kind: str, name: str) -> str:
    """Return the words of `drobench run` for a run with such a plugin; empty where none are needed."""
    if kind == "reformulation":
        # It is taken wherever it leads from a problem to a solver.
        return ""
    return f"{_with_a_loss(load_catalogue())} problem.loss={name}" if kind == "loss" else f"{kind}={name}"


def _with_a_loss(catalogue: Catalogue) -> str:
    """Return the words that choose an installed problem that takes losses of numbers, and data for it."""
    problems = [
        name
        for name, found in catalogue.problems.items()
        if "targets" in found.entry.needs and hasattr(found.entry.config, "loss")
    ]
    data = [name for name, found in catalogue.datasets.items() if "targets" in found.entry.provides]
    return f"problem={problems[0]} dataset={data[0]}" if problems and data else "problem=NAME dataset=NAME"


def render(kind: str, name: str) -> dict[str, str]:
    """Return the files of the package, each with its path in it."""
    import jinja2

    words = name.split("_")
    # `my_solver` becomes `MySolver`, not `MySolverSolver`.
    if len(words) > 1 and words[-1] == kind:
        words = words[:-1]
    values = {
        "kind": kind,
        "name": name,
        "title": name.replace("_", " ").strip().capitalize(),
        "prefix": "".join(word.capitalize() for word in words),
        "distribution": name.strip("_").replace("_", "-"),
        "version": __version__,
        "api": PLUGIN_API,
        "run": words_of_a_run(kind, name),
    }
    environment = jinja2.Environment(  # noqa: S701  # these are program texts, not pages
        loader=jinja2.FileSystemLoader(_TEMPLATES), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    files = {
        "pyproject.toml": "common/pyproject.toml.jinja",
        "README.md": "common/README.md.jinja",
        f"src/{name}/__init__.py": "common/package.py.jinja",
        f"src/{name}/{kind}.py": f"{kind}/source.py.jinja",
        f"tests/test_{name}.py": f"{kind}/test.py.jinja",
        ".github/workflows/tests.yml": "common/tests.yml.jinja",
    }
    return {path: environment.get_template(template).render(values) for path, template in files.items()}


def _check_name(kind: str, name: str) -> None:
    expected = "a name of lower-case letters, digits and underscores that begins with a letter, such as my_" + kind
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        found = f"{name!r}, a word of Python" if keyword.iskeyword(name) else repr(name)
        raise DrobenchError(f"NAME must be {expected}; found {found}.")
    if name in _WORDS or name in sys.stdlib_module_names:
        raise DrobenchError(f"NAME must be {expected}; {name!r} is taken by Python or drobench. Choose another.")
    if _is_a_plugin(name):
        # The author's own, made before and installed: it may be made again elsewhere.
        return
    specification = importlib.util.find_spec(name)
    if specification is not None and specification.origin is not None:
        raise DrobenchError(
            f"NAME becomes the name of a Python package, and {name!r} is one that is installed "
            f"({specification.origin}). Choose another."
        )
    installed = load_catalogue().of_kind(kind)
    if name in installed:
        raise DrobenchError(f"There is a {kind} called {name!r} already, in {installed[name]}. Choose another name.")


def _is_a_plugin(name: str) -> bool:
    return any(point.name == name for point in importlib.metadata.entry_points(group="drobench"))
