"""The site: every page has its place, and everything that the API reference names exists."""

import importlib
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def places(entry) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [place for item in (entry.values() if isinstance(entry, dict) else entry) for place in places(item)]


def test_every_page_is_in_the_navigation_once():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = [file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")]
    assert sorted(places(settings["nav"])) == sorted(pages)
    assert settings["strict"] is True


def test_every_room_is_linked_from_the_start_of_the_reference():
    linked = set(re.findall(r"\]\((\w+\.md)\)", (DOCS / "api" / "index.md").read_text(encoding="utf-8")))
    assert linked == {file.name for file in (DOCS / "api").glob("*.md")} - {"index.md"}


@pytest.mark.parametrize("page", sorted((DOCS / "api").glob("*.md")), ids=lambda page: page.stem)
def test_what_the_reference_names_exists_and_is_described(page):
    for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        assert found(name).__doc__, f"{name} has no docstring"


def found(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)
