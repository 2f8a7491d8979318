"""The page on estimators: every block runs, one after the other, and prints what the page says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def executed(text):
    """Yield, for each block that prints, what it prints and what the page says below it."""
    blocks, known = BLOCK.findall(text), {}
    for (language, block), (next_language, expected) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, str(PAGE), "exec"), known)
            yield printed.getvalue(), expected if next_language == "text" else ""


def test_every_block_prints_what_the_page_says():
    found = list(executed(PAGE.read_text(encoding="utf-8")))
    assert len(found) >= 6
    assert [printed for printed, _ in found] == [expected for _, expected in found]


def test_what_a_block_prints_and_a_page_does_not_say_is_found():
    text = "```python\nprint(1)\n```\n\n```text\n2\n```\n\n```python\nprint(3)\n```\n"
    assert list(executed(text)) == [("1\n", "2\n"), ("3\n", "")]


def test_the_problems_of_the_table_can_be_fitted():
    from sklearn.datasets import load_breast_cancer

    from drobench.estimators import DROClassifier

    rows = re.findall(r"^\| `(\w+)`[^|]*\|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {"kl", "chi2", "cvar", "group", "wasserstein"} < set(rows)
    features, labels = load_breast_cancer(return_X_y=True)
    for name in set(rows):
        assert DROClassifier(name).fit(features[:100], labels[:100]).gap_ == pytest.approx(0.0, abs=1e-6)
