"""The wheel: everything a user needs is in it, nothing else, and it works from an empty folder."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="needs the source tree"),
]


def call(*words, **settings):
    ended = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **settings)
    assert ended.returncode == 0, (ended.stdout, ended.stderr)
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the source tree, built without network."""
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder with the executables of an environment that has the wheel, and ours only for what it depends on."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    call(sys.executable, "-m", "venv", "--without-pip", folder)
    binaries = folder / "bin"
    install = ("-m", "pip", "--python", binaries / "python", "install", "--quiet", "--no-deps", "--no-index")
    call(sys.executable, *install, "--disable-pip-version-check", wheel)
    # Only now: with our packages in sight pip would take the editable installation for the one to replace. A plain
    # path file does not read the path files beside those packages, so the source tree stays out of sight.
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return binaries


@pytest.fixture
def outside(tmp_path):
    """Settings of a process that starts in an empty folder and knows nothing of the source tree."""
    empty = tmp_path / "empty"
    empty.mkdir()
    hidden = ("PYTHONPATH", "DROBENCH_RESULTS")
    return {"cwd": empty, "env": {name: value for name, value in os.environ.items() if name not in hidden}}


def test_configuration_and_sweeps_are_in_the_wheel(contents):
    for folder in ("conf", "sweeps"):
        for file in (ROOT / folder).rglob("*.yaml"):
            assert f"drobench/{file.relative_to(ROOT)}" in contents


def test_every_module_is_in_the_wheel(contents):
    for base, package in ((ROOT, "drobench"), (ROOT / "plugins", "drobench_plugins")):
        for file in (base / package).rglob("*.py"):
            assert str(file.relative_to(base)) in contents


def test_the_templates_of_new_packages_are_in_the_wheel(contents):
    templates = list((ROOT / "drobench").rglob("*.jinja"))
    assert len(templates) >= 10
    assert {str(file.relative_to(ROOT)) for file in templates} <= contents


def test_nothing_else_is_in_the_wheel(contents):
    tops = {name.split("/")[0] for name in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"drobench", "drobench_plugins"}
    assert [name for name in contents if {"tests", "benchmarks", "__pycache__"} & set(name.split("/"))] == []
    assert {Path(name).suffix for name in contents if ".dist-info" not in name} <= {
        ".py", ".yaml", ".typed", ".json", ".jinja", ".css", ".js"
    }  # fmt: skip


def test_the_wheel_tells_its_entry_points_and_licence(wheel, contents):
    (entry_points,) = [name for name in contents if name.endswith("entry_points.txt")]
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(entry_points).decode()
    for line in ("drobench = drobench.app.cli:main", "drobench_plugins = drobench_plugins.hooks", "[drobench]"):
        assert line in text
    assert any(name.endswith("LICENSE") for name in contents)


def test_the_installed_wheel_works_from_an_empty_folder(installed, outside):
    code = "import sys, drobench, drobench_plugins as p; print(drobench.__file__); print(p.__file__); print(sys.path)"
    ours, plugins, path = call(installed / "python", "-c", code, **outside).splitlines()
    assert ours.startswith(str(installed.parent))
    assert plugins.startswith(str(installed.parent))
    assert f"'{ROOT}'" not in path

    listed = call(installed / "drobench", "plugins", **outside)
    assert "gcivr" in listed
    assert "not used" not in listed
    assert "quickstart" in call(installed / "drobench", "sweep", **outside)

    words = ("budget.passes=null", "budget.steps=3", "evaluation.every_passes=1")
    shown = call(installed / "drobench", "sweep", "quickstart", *words, "--jobs", "2", **outside)
    assert "Computed: 21 budget_spent." in shown
    assert "kl_classification on breast_cancer" in shown
    empty = outside["cwd"]
    assert [item.name for item in empty.iterdir()] == ["results"]
    assert len(list(empty.glob("results/*/record.json"))) == 21
    # A record of an installed package has no revision to tell, and does not take that of the folder it is used in.
    import json

    environments = [json.loads(file.read_text())["environment"] for file in empty.glob("results/*/record.json")]
    assert {environment["git_revision"] for environment in environments} == {None}
