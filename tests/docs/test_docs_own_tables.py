"""Every block of the page on own tables is executed, in an empty folder, and prints what stands below it."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "own-tables.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(PAGE.read_text("utf-8"))


def test_every_block_is_executed_or_what_one_prints():
    found = [language for language, _ in blocks()]
    assert PAGE.read_text("utf-8").count("\n```") == 2 * len(found)
    assert set(found) == {"shell", "python", "text"}
    assert all(before != "text" for before, language in itertools.pairwise(found) if language == "text")


def test_every_setting_of_a_table_is_on_the_page():
    from dataclasses import fields

    from drobench.data.dataset import DatasetConfig
    from drobench_plugins.datasets.tabular import TabularConfig

    own = {field.name for field in fields(TabularConfig)} - {field.name for field in fields(DatasetConfig)}
    (table,) = re.findall(r"^\| what \| rule.*?\n\n", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    settings = " ".join(line.rsplit("|", 2)[1] for line in table.splitlines() if line)
    assert own - {"missing"} <= set(re.findall(r"`(\w+)", settings))
    assert "`missing=refuse`" in settings


@pytest.fixture
def reader(tmp_path):
    """A reader in an empty folder, who has a `drobench`; gives what a block prints."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "drobench").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c "from drobench.app.cli import main; main()" "$@"\n'
    )
    (programs / "drobench").chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    hidden = ("DROBENCH_RESULTS", "DROBENCH_DISABLE_PLUGINS")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    variables |= {
        "PATH": f"{programs}{os.pathsep}{variables['PATH']}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "250",
    }
    command = {"shell": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-W", "error", "-c"]}

    def read(language: str, text: str) -> str:
        done = subprocess.run(
            [*command[language], text],
            cwd=place,
            env=variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return read


# A dozen programs one after the other, on a machine that may be busy.
@pytest.mark.process
@pytest.mark.timeout(1200)
def test_the_blocks_run_in_order_and_print_what_the_page_says(reader):
    printed, shown = "", 0
    for language, text in blocks():
        if language == "text":
            lines = [line.strip() for line in printed.splitlines()]
            assert [line for line in text.splitlines() if line not in lines] == [], printed
            shown += 1
        else:
            printed = reader(language, text)
    assert shown == 3
