"""The house: which room may know which, and what must stay light."""

import ast
import importlib
import json
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import drobench
from drobench.registry import load_catalogue

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "drobench", ROOT / "plugins" / "drobench_plugins")
ROOMS = [
    folder
    for package in PACKAGES
    for folder in (package, *sorted(package.iterdir()))
    if (folder / "__init__.py").is_file()
]
MODULES = [file for package in PACKAGES for file in sorted(package.rglob("*.py"))]


def modules_after(statement):
    """Return the names of all modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(ended.stdout))


@pytest.mark.process
def test_the_import_contracts_are_kept():
    command = Path(sys.executable).parent / "lint-imports"
    ended = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "0 broken" in ended.stdout


def test_the_contracts_speak_of_every_room():
    text = (ROOT / "pyproject.toml").read_text()
    layers = text.split("layers = [")[1].split("]")[0]
    named = {name.strip() for line in layers.splitlines() for name in line.strip(' ",').split("|") if name.strip()}
    rooms = {folder.name for folder in (ROOT / "drobench").iterdir() if (folder / "__init__.py").is_file()}
    assert rooms <= named


def test_every_room_says_what_it_is_for():
    texts = {room: ast.get_docstring(ast.parse((room / "__init__.py").read_text())) for room in ROOMS}
    assert len(texts) > 10
    assert [str(room) for room, text in texts.items() if len((text or "").split()) < 4] == []


def test_every_module_says_what_it_is_for():
    silent = [str(file.relative_to(ROOT)) for file in MODULES if not ast.get_docstring(ast.parse(file.read_text()))]
    assert silent == []


def test_there_is_no_drawer_for_odds_and_ends():
    paths = [file.relative_to(ROOT).with_suffix("") for file in MODULES]
    assert [path for path in paths if {"util", "utils", "misc", "common"} & set(path.parts)] == []


@pytest.mark.process
def test_importing_the_package_is_light():
    loaded = modules_after("import drobench")
    assert not loaded & {"torch", "hydra", "omegaconf", "pytorch_lightning", "numpy", "polars", "pluggy"}
    assert "drobench_plugins" not in loaded


@pytest.mark.process
def test_results_are_read_without_torch():
    files = sorted((ROOT / "drobench" / "results").glob("*.py"))
    names = ["drobench.results" + ("" if file.stem == "__init__" else f".{file.stem}") for file in files]
    loaded = modules_after("import " + ", ".join(names))
    assert set(names) <= loaded
    assert not loaded & {"torch", "hydra", "pytorch_lightning", "wandb"}


@pytest.mark.process
def test_reading_a_configuration_does_not_load_lightning():
    loaded = modules_after("import drobench.app.config")
    assert "hydra" in loaded
    assert not loaded & {"pytorch_lightning", "wandb", "drobench_plugins"}


@pytest.mark.process
def test_listing_the_plugins_loads_neither_lightning_nor_hydra():
    loaded = modules_after("from drobench.registry import load_catalogue; load_catalogue()")
    assert "drobench_plugins.hooks" in loaded
    assert not loaded & {"pytorch_lightning", "wandb", "hydra", "cvxpy", "sklearn"}


@pytest.mark.process
def test_fitting_an_estimator_loads_neither_lightning_nor_hydra():
    statement = (
        "from drobench.estimators import DROClassifier; DROClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])"
    )
    loaded = modules_after(statement)
    assert {"sklearn", "drobench_plugins.hooks"} <= loaded
    assert not loaded & {"pytorch_lightning", "wandb", "hydra", "omegaconf", "cvxpy", "polars"}


def test_every_public_name_is_there():
    for name in drobench.__all__:
        found = getattr(drobench, name)
        if name not in ("__version__", "PLUGIN_API"):
            assert callable(found), name
            assert getattr(found, "__doc__", None), name


def test_the_public_names_are_the_documented_ones():
    assert {"run", "leaderboard", "load_solution", "hookimpl"} <= set(drobench.__all__)
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        _ = drobench.walk


def test_the_version_is_written_once():
    from importlib import metadata

    assert drobench.__version__ == metadata.version("drobench")


def registered():
    found = load_catalogue()
    for kind, entries in (("solver", found.solvers), ("problem", found.problems), ("dataset", found.datasets)):
        for name, registration in entries.items():
            if registration.distribution == "drobench":
                yield f"{kind} {name}", registration.entry


def test_every_plugin_of_ours_has_a_summary_and_a_reference():
    for name, entry in registered():
        assert len(entry.summary.split()) >= 3, name
        assert entry.reference.strip(), name
        assert entry.config.__doc__, name
        made_up = entry.config.__doc__.startswith(f"{entry.config.__name__}(")
        assert not made_up, f"{name}: the text that dataclass makes up"
        assert importlib.import_module(entry.config.__module__).__doc__, name


def test_all_our_plugins_are_sound():
    assert load_catalogue().troubles == ()
    assert list(registered())


# Ordinary words that are also the name of a plugin. They count as names only where one is chosen: `dataset=digits`.
HOMONYMS = {
    "cover": "what an interval or a draw covers",
    "digits": "of numbers and of run ids",
    "mapped": "files that are mapped into memory",
    "synthetic": "what a twin of real data is",
    "tabular": "the CSS property tabular-nums",
}
# Where an example of a command must name something, or says what to type next.
EXAMPLES = {"__init__.py", "app/api.py", "app/cli.py", "app/composer.py", "app/new_package.py"}
EXAMPLES |= {f"app/commands/{name}.py" for name in ("data", "plugins", "run", "runs", "settings")}
WORD = re.compile(r"(?P<chosen>\b(?:solver|problem|dataset)=)?(?<![\w.])(?P<word>[a-z][a-z0-9_]*)(?!\w)")


def texts_of(file):
    """Return the line and text of every string and comment of a Python file; of another file, every line."""
    if file.suffix != ".py":
        return list(enumerate(file.read_text().splitlines(), start=1))
    # Parts of f-strings are tokens of their own from Python 3.12 on.
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    with file.open("rb") as content:
        return [(token.start[0], token.string) for token in tokenize.tokenize(content.readline) if token.type in kinds]


def names_in(text, names):
    """Return the names of plugins in a text; a homonym is one where it is chosen, or all there is."""
    bare = text.strip("rbf\"'")
    return [
        found["word"]
        for found in WORD.finditer(text)
        if found["word"] in names and (found["chosen"] or found["word"] not in HOMONYMS or bare == found["word"])
    ]


def test_a_name_is_found_wherever_it_stands():
    names = {"gcivr", "digits"}
    assert names_in('"use solver=gcivr instead"', names) == ["gcivr"]
    assert names_in("# as `gcivr` does", names) == ["gcivr"]
    assert names_in('f"dataset=digits"', names) == ["digits"]
    assert names_in('"digits"', names) == ["digits"]
    assert names_in('"three digits, dist_gcivr, gcivr_authors, x.gcivr"', names) == []


def test_the_framework_names_no_plugin():
    """`drobench` knows no solver, problem or dataset by name, not even in a text or a comment."""
    found = load_catalogue()
    names = {*found.solvers, *found.problems, *found.datasets}
    assert set(HOMONYMS) <= names, "a homonym that is no name any more"
    framework = ROOT / "drobench"
    files = [file for file in framework.rglob("*") if file.suffix in (".py", ".html", ".css", ".js", ".jinja")]
    offenders = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in sorted(files)
        if file.relative_to(framework).as_posix() not in EXAMPLES and "templates" not in file.parts
        for line, text in texts_of(file)
        for name in names_in(text, names)
    ]
    assert offenders == []


def test_a_solver_plugin_does_not_touch_gradients_or_processes_itself():
    offenders = []
    for file in (ROOT / "plugins" / "drobench_plugins" / "solvers").glob("*.py"):
        offenders += [
            f"{file.name}:{node.lineno}: {node.attr}"
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Attribute) and node.attr in ("backward", "distributed")
        ]
    assert offenders == []


def test_every_file_of_tests_has_its_own_name():
    """Without packages in the tests two files of one name would be one module."""
    names = [file.name for file in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
    assert not list((ROOT / "tests").rglob("__init__.py"))
