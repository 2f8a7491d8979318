"""The page on measuring and comparing names every metric of our problems, with its direction."""

import re
from pathlib import Path

from drobench.registry import load_catalogue

PAGE = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text("utf-8")


def test_the_table_is_that_of_the_code():
    lines = re.findall(r"^\| (?!problems|---)[^|]+\|([^|]+)\| (less|more) \|$", PAGE, flags=re.MULTILINE)
    on_page = {(name, better) for cell, better in lines for name in re.findall(r"`(\w+)`", cell)}
    ours = [found.entry.factory for found in load_catalogue().problems.values() if found.distribution == "drobench"]
    assert on_page == {(metric.name, metric.better) for problem in ours for metric in problem.metrics}
