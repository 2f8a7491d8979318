"""The tests themselves: each module has a file of its name, and what starts processes says so."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("app", "data", "estimators", "objective", "reformulation", "registry", "results", "solver", "training")
# Modules without a file of their own, and why.
TESTED_ELSEWHERE = {
    "registry/hookspecs.py": "three empty functions; every test of the plugins calls them",
}
# Fixtures that start other processes, wherever they are defined.
STARTING = {"install_packages", "folder_of_two", "folder_of_three", "launched", "command_at_work"}


def modules():
    """Yield the modules of the rooms that define something; files of old names do not."""
    for room in ROOMS:
        for file in sorted((ROOT / "drobench" / room).rglob("*.py")):
            # What `drobench new` copies is no module of ours.
            if file.name == "__init__.py" or "templates" in file.parts:
                continue
            if any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.parse(file.read_text()).body):
                yield room, file


def path_of(file):
    return file.relative_to(ROOT / "drobench").as_posix()


def test_every_module_has_a_file_of_tests_of_its_name():
    names = {room: [file.stem for file in (ROOT / "tests" / room).rglob("test_*.py")] for room in ROOMS}
    untested = {path_of(file) for room, file in modules() if not any(file.stem in name for name in names[room])}
    assert sorted(untested) == sorted(TESTED_ELSEWHERE)


def starts_processes(tree):
    """Whether a file of tests imports what starts processes, or asks for a fixture that does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = {name.name.split(".")[-1] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported = {str(node.module).split(".")[-1], *(name.name for name in node.names)}
        elif isinstance(node, ast.FunctionDef):
            if STARTING & {argument.arg for argument in node.args.args}:
                return True
            continue
        else:
            continue
        if imported & {"subprocess", "multiprocessing"}:
            return True
    return False


def is_marked(tree):
    marks = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "process"]
    return any(ast.unparse(mark) == "pytest.mark.process" for mark in marks)


def test_what_starts_processes_is_marked():
    trees = {file: ast.parse(file.read_text()) for file in sorted((ROOT / "tests").rglob("test_*.py"))}
    starting = [file for file, tree in trees.items() if starts_processes(tree)]
    assert starting
    assert [file.name for file in starting if not is_marked(trees[file])] == []


def test_the_search_for_processes_finds_both_ways_and_nothing_else():
    assert starts_processes(ast.parse("import torch.multiprocessing"))
    assert starts_processes(ast.parse("from subprocess import run"))
    assert starts_processes(ast.parse("def test_something(launched): pass"))
    assert not starts_processes(ast.parse("import os\ndef test_something(tmp_path): pass"))
    assert is_marked(ast.parse("pytestmark = [pytest.mark.process]"))
    assert not is_marked(ast.parse("pytestmark = pytest.mark.convergence"))
