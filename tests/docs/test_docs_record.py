"""`docs/record.md` against the code: every field, column, array, folder and variable is there, and nothing else is."""

import ast
import re
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from drobench.results.fields import Part, known_fields
from drobench.results.record import Record

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "object", Any: "any"}
PROGRAMS = ("drobench", "plugins/drobench_plugins", "benchmarks")


def sections(level: str, text: str) -> dict[str, str]:
    """The text below each heading of a level, by heading."""
    pieces = re.split(rf"^{level} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def rows(text: str) -> dict[str, list[str]]:
    """The other cells of all table rows, by what stands in the first cell; several names there share them."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        first, *others = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| `") else [""]
        for name in re.findall(r"`([^`]+)`", first):
            assert name not in found, f"{name} is described twice"
            found[name] = others
    return found


CHAPTERS = sections("##", PAGE)


def described() -> dict[str, dict[str, str]]:
    """The fields on the page with their types, by the place of the object within the record; "" is the record."""
    places: dict[str, dict[str, str]] = {}
    for heading, text in sections("###", CHAPTERS["record.json"]).items():
        for place in re.findall(r"`([\w.]+)`", heading) or [""]:
            found = {name: cells[0] for name, cells in rows(text).items()}
            assert not found.keys() & places.get(place, {}).keys(), f"{place}: described twice"
            places.setdefault(place, {}).update(found)
    return places


def word(annotation: Any) -> str:
    """The page's word for the type of a field."""
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType] if is_optional(annotation) else [annotation]
    (kind,) = kinds
    kind = get_origin(kind) or kind
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        kind = str
    if isinstance(kind, type) and issubclass(kind, Part):
        kind = dict
    return WORDS[kind] + (" or null" if is_optional(annotation) else "")


def is_optional(annotation: Any) -> bool:
    return NoneType in get_args(annotation)


def part_of(annotation: Any) -> type[Part] | None:
    candidates = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
    return next((kind for kind in candidates if issubclass(kind, Part)), None)


def fixed(kind: type[Part], place: str = "") -> dict[str, dict[str, str]]:
    """The fields of the code with their types, by the place of the object within the record."""
    hints = get_type_hints(kind)
    found = {place: {name: word(hints[name]) for name in known_fields(kind)}}
    for name in known_fields(kind):
        part = part_of(hints[name])
        if part is not None:
            found |= fixed(part, f"{place}.{name}" if place else name)
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The records of two runs, and their store: one that averages, one whose entry says that it is a reconstruction."""
    from drobench import run
    from drobench.results.store import ResultStore

    root = tmp_path_factory.mktemp("results")
    common = ("dataset=synthetic", "dataset.rows=60", "budget=smoke", f"results={root}", "logger=csv")
    averaging = run("solver=gcivr", "solver.average=true", *common)
    rebuilt = run("solver=fulltouch", "problem=constrained_quadratic", "problem.constraints=5", *common)
    assert {averaging.status, rebuilt.status} == {"budget_spent"}
    return ResultStore(root), averaging, rebuilt


def test_every_field_of_the_code_is_on_the_page_with_its_type():
    page, code = described(), fixed(Record)
    assert page.keys() == code.keys()
    for place, expected in code.items():
        assert {name: page[place].get(name) for name in expected} == expected, place or "the record"


def test_every_field_on_the_page_is_in_the_code_or_in_a_record(runs):
    added: dict[str, set[str]] = {}
    for record in runs[1:]:
        for place in ("", "solver", "problem", "dataset"):
            part = getattr(record, place) if place else record
            added.setdefault(place, set()).update(part.others)
    beyond = {place: found.keys() - fixed(Record)[place].keys() for place, found in described().items()}
    assert {place: names for place, names in beyond.items() if names} == {
        place: names for place, names in added.items() if names
    }


def test_every_status_is_explained():
    from drobench.results.record import Status

    (line,) = [line for line in PAGE.splitlines() if line.startswith("| `status`")]
    assert {status for status in Status if f"`{status}`" not in line} == set()


def test_every_outcome_is_explained():
    from drobench.results.record import Outcome

    told = sections("###", CHAPTERS["record.json"])["The outcome"]
    assert re.findall(r"^- `(\w+)`", told, flags=re.MULTILINE) == ["start_is_optimal", "worse_than_start", "ok"]
    assert {outcome for outcome in Outcome if f"- `{outcome}`: " not in told} == set()


def test_every_column_of_a_curve_is_on_the_page_with_its_type(runs):
    import polars

    store, averaging, rebuilt = runs
    page = {name: cells[0] for name, cells in rows(CHAPTERS["curve.parquet"]).items()}
    kinds = {polars.Int64(): "whole number", polars.Float64(): "number", polars.Boolean(): "true or false"}
    for record in (averaging, rebuilt):
        schema = dict(store.curve(record.run_id).schema)
        further = record.iterates.last.extra.keys()
        assert further <= schema.keys()
        assert list(page) == [name for name in schema if name not in further]
        typed = {name: kinds[kind] for name, kind in schema.items() if name in page and kind != polars.Null()}
        assert typed == {name: page[name] for name in typed}


def test_every_array_of_a_solution_is_on_the_page(runs):
    store, averaging, _ = runs
    arrays = store.solution(averaging.run_id)
    page = rows(CHAPTERS["solution.safetensors"])
    assert page.keys() == arrays.keys()
    assert {name: cells[0].count("s)") for name, cells in page.items()} == {
        name: array.ndim for name, array in arrays.items()
    }


def test_every_key_of_a_stored_configuration_is_on_the_page(runs):
    import yaml

    from drobench.app.config import RunConfig

    store, averaging, _ = runs
    page = list(rows(CHAPTERS["config.yaml"]))
    assert page == [field.name for field in fields(RunConfig)]
    assert page == list(yaml.safe_load(store.config(averaging.run_id)))


def test_every_hidden_folder_is_on_the_page_and_made_somewhere(runs):
    page = rows(CHAPTERS["Folders beside the runs"]).keys()
    made = {entry.name for entry in runs[0].root.iterdir() if entry.name.startswith(".")}
    assert {".locks", ".work", ".optima", ".logs"} <= made <= page
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "drobench").rglob("*.py")]
    sources.append((ROOT / "conf" / "run.yaml").read_text(encoding="utf-8"))
    assert {name for name in page if not any(re.search(rf"[\"/]\{name}\b", text) for text in sources)} == set()


def questions(tree: ast.AST) -> list[ast.expr]:
    """What a piece of program asks of the environment: `environ[X]`, `environ.get(X)`, `getenv(X)`, `X in environ`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_environment(node.value) and isinstance(node.ctx, ast.Load):
            found.append(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if (node.func.attr == "get" and is_environment(node.func.value)) or node.func.attr == "getenv":
                found.append(node.args[0])
        elif isinstance(node, ast.Compare) and is_environment(node.comparators[0]):
            found.append(node.left)
    return found


def is_environment(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def read_variables(texts: list[str]) -> set[str]:
    """The variables that programs read: by a text, by a constant, or by a function that is given the name."""
    constants = dict(re.findall(r'^(\w+) = "([A-Z][A-Z0-9_]+)"$', "\n".join(texts), flags=re.MULTILINE))
    found, askers = set(), set()
    for tree in [ast.parse(text) for text in texts if "environ" in text or "getenv" in text]:
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        given = {
            (function.name, asked.id)
            for function in functions
            for asked in questions(function)
            if isinstance(asked, ast.Name) and asked.id in {argument.arg for argument in function.args.args}
        }
        askers |= {function for function, _ in given}
        names = constants | {argument: "" for _, argument in given}
        for asked in questions(tree):
            found.add(asked.value if isinstance(asked, ast.Constant) else names[asked.id])
    for text in texts:
        for asker in askers:
            found |= set(re.findall(rf'\b{asker}\("(\w+)"', text))
    return found - {""}


def test_every_variable_that_is_read_is_on_the_page_and_the_other_way_round():
    files = [file for folder in PROGRAMS for file in (ROOT / folder).rglob("*.py")]
    read = read_variables([file.read_text(encoding="utf-8") for file in files])
    for file in (ROOT / "conf").rglob("*.yaml"):
        read |= set(re.findall(r"oc\.env:(\w+)", file.read_text(encoding="utf-8")))
    assert {"DROBENCH_RESULTS", "DROBENCH_DATA", "DROBENCH_DISABLE_PLUGINS"} <= read
    assert rows(CHAPTERS["Environment variables"]).keys() == read


def test_what_is_read_is_found_in_each_way_of_asking():
    asking = "os.environ['AA']; os.environ.get('BB', ''); os.getenv('CC'); 'DD' in os.environ; os.environ.get(E_NAME)"
    asker = "def told(name):\n    return os.environ[name]\n"
    found = read_variables([asking, asker, 'E_NAME = "EE"', 'rank = told("FF")'])
    assert found == {"AA", "BB", "CC", "DD", "EE", "FF"}
    assert read_variables(["os.environ['AA'] = '1'; {}.get('BB'); 'CC' in known"]) == set()
