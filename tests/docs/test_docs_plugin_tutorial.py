"""Every block of the tutorial is executed, in the order in which a reader meets it."""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "writing-a-plugin.md"
BLOCK = re.compile(r"(?:^<!-- file: (\S+) -->\n)?^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    file: str | None
    """Where a reader puts it, in the package that the tutorial makes."""


def blocks() -> list[Block]:
    return [Block(language, text, file or None) for file, language, text in BLOCK.findall(PAGE.read_text("utf-8"))]


def test_every_block_is_of_a_kind_that_is_executed_or_a_picture():
    found = blocks()
    assert PAGE.read_text("utf-8").count("\n```") == 2 * len(found)
    assert {block.language for block in found} == {"shell", "python", "toml", ""}
    (picture,) = [block.text for block in found if not block.language]
    assert "──►" in picture


def test_the_python_blocks_run_in_order(capsys):
    # Under a name that can be imported: the annotations of a solver are looked up in its module.
    module = type(sys)("tutorial")
    sys.modules["tutorial"] = module
    try:
        for block in blocks():
            if block.language == "python":
                exec(compile(block.text, str(PAGE), "exec"), vars(module))
    finally:
        del sys.modules["tutorial"]
    # Newton's method agrees, see below; the method got there within its 50 steps.
    value, passes = re.fullmatch(r"(\S+) after (\d+) passes", capsys.readouterr().out.strip()).groups()
    assert float(value) == pytest.approx(_optimum(module.rows, module.signs), abs=2e-6)
    assert int(passes) <= 60


def _optimum(rows, signs) -> float:
    """The optimum of the problem of the page, by scipy."""
    import numpy as np
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    signed = (rows * signs[:, None]).numpy()

    def value(point):
        losses = np.logaddexp(0.0, -signed @ point)
        return 0.5 * (logsumexp(losses / 0.5) - np.log(len(signed))) + 0.05 * point @ point

    return float(minimize(value, np.zeros(signed.shape[1]), options={"gtol": 1e-9}).fun)


def test_the_toml_block_is_what_the_generated_package_has():
    from drobench.app.new_package import render

    (block,) = [block for block in blocks() if block.language == "toml"]
    generated = tomllib.loads(render("solver", "my_solver")["pyproject.toml"])
    assert tomllib.loads(block.text)["project"]["entry-points"] == generated["project"]["entry-points"]


@pytest.fixture
def reader(install_packages, tmp_path):
    """A shell in an empty folder, with `drobench`, `pytest` and a `pip` that needs no network."""
    environment = install_packages()
    binaries = environment.python.parent
    slow = "two_processes and not measured_rate"
    ours = f'"{sys.executable}" -m pip --disable-pip-version-check --python "{environment.python}"'
    # Editable installations need a package that the tests do not; the source folder is put on the path instead. The
    # slow checks are left to `drobench check`, further down the page.
    scripts = {
        "drobench": f'exec "{environment.python}" -c "from drobench.app.cli import main; main()" "$@"',
        "pytest": f'exec "{environment.python}" -m pytest -p no:cacheprovider -k "not {slow}" "$@"',
        "pip": f'[ "$*" = "install -e .[test]" ] && exec {ours} install -q --no-deps --no-index --no-build-isolation .',
    }
    for name, line in scripts.items():
        (binaries / name).write_text(f"#!/bin/sh\n{line}\n")
        (binaries / name).chmod(0o755)
    hidden = ("DROBENCH_RESULTS", "DROBENCH_DISABLE_PLUGINS")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    variables |= {
        "PATH": f"{binaries}{os.pathsep}{variables['PATH']}",
        "PYTHONPATH": str(tmp_path / "my_solver" / "src"),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "250",
    }
    place = tmp_path / "place"
    place.write_text(str(tmp_path))

    def run(text: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f'{text}\npwd > "{place}"'],
            cwd=place.read_text().strip(),
            env=variables,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


# A dozen programs one after the other, on a machine that may be busy.
@pytest.mark.process
@pytest.mark.timeout(1200)
def test_the_shell_blocks_run_in_order_in_the_package_they_make(reader, tmp_path):
    shown = []
    for block in blocks():
        if block.language == "shell":
            shown.append(reader(block.text))
        elif block.file is not None:
            file = tmp_path / "my_solver" / block.file
            assert file.is_file(), "the tutorial replaces files of the generated package"
            file.write_text(block.text)
    made, checked, compared, lossy, modelled, tried, listed, packed, without = shown
    assert re.search(r"\d+ passed", made)
    assert "my_solver" in checked
    assert "my_solver" in compared
    assert "scgd" in compared
    assert "my_model: a model in src/my_model/model.py" in modelled
    assert "my_loss: a loss in src/my_loss/loss.py" in lossy
    assert "1 passed, 0 failed, 0 skipped" in tried
    assert "my-solver 0.1.0" in listed
    assert "Accelerated proximal gradient" in listed
    assert "4 of 4 checks confirmed" in packed
    assert "disabled: my_solver" in without
    assert "my-solver" not in without
