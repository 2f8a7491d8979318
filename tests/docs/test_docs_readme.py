"""What the README shows must work as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_breast_cancer

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


@pytest.fixture(scope="module")
def strangers_package(tmp_path_factory):
    """The README's plugin, laid out as an installed package would be."""
    folder = tmp_path_factory.mktemp("site")
    (source,) = [block for block in blocks("python") if "drobench_solvers" in block]
    package = folder / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "descent.py").write_text(source)
    information = folder / "my_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (toml,) = blocks("toml")
    entry = re.search(r'^(\w+) = "([\w.]+)"$', toml, flags=re.MULTILINE)
    assert entry is not None
    assert "[project.entry-points.drobench]" in toml
    (information / "entry_points.txt").write_text(f"[drobench]\n{entry.group(1)} = {entry.group(2)}\n")
    return folder


@pytest.mark.process
def test_the_solver_of_the_readme_runs_from_its_own_package(strangers_package, tmp_path):
    program = (
        "from drobench import run\n"
        "record = run('solver=descent', 'solver.step_size=0.5', 'problem.l2=0.1', 'budget.passes=200')\n"
        "assert record.solver.distribution == 'my-package', record.solver\n"
        "assert record.iterates.last.gap < 1e-3 * record.optimum.value, record.iterates.last.gap\n"
        "print(record.status)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(strangers_package), "DROBENCH_RESULTS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "budget_spent"


def test_the_python_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("DROBENCH_RESULTS", str(tmp_path))
    (source,) = [block for block in blocks("python") if "load_solution" in block]
    names: dict[str, Any] = {}
    exec(compile(source, str(README), "exec"), names)
    assert names["record"].status == "budget_spent"
    features, labels = load_breast_cancer(return_X_y=True)
    assert (names["model"].predict(features) == labels).mean() > 0.9


def test_the_estimator_of_the_readme_is_certified():
    (source,) = [block for block in blocks("python") if "estimators" in block]
    names: dict[str, Any] = {}
    exec(compile(source, str(README), "exec"), names)
    assert names["robust"].score(names["X"], names["y"]) > 0.9
    assert abs(names["robust"].gap_) < 1e-6


def test_every_name_in_the_readmes_table_is_installed():
    from drobench.registry import load_catalogue

    catalogue = load_catalogue()
    for kind in ("solvers", "problems", "datasets", "models", "loggers", "losses"):
        (row,) = re.findall(rf"^\| {kind} \| (.*) \|$", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", row)) == set(getattr(catalogue, kind))
