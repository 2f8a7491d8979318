"""The HTML templates. All text is escaped, since names come from strangers' plugins."""

from importlib import resources
from typing import Any

import jinja2


def asset(name: str) -> str:
    """The text of a file that belongs to the pages: a template, a style sheet or a script."""
    return (resources.files("drobench.results.report") / "assets" / name).read_text(encoding="utf-8")


def rendered(name: str, /, **values: Any) -> str:
    """A template with its values filled in; one that is missing is an error."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(asset(name)).render(**values)
