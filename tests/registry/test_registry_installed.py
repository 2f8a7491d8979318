"""Real entry points: packages laid out as an installer would, read by a process of its own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).resolve().parents[2]

SOUND = """
    from dataclasses import dataclass
    from drobench.registry import SolverEntry, hookimpl

    @dataclass
    class Settings:
        step_size: float = 0.1

    @hookimpl
    def drobench_solvers():
        return [SolverEntry(name="{name}", summary="S.", config=Settings, factory=Settings, accepts=(Settings,))]
"""

SHOW = """
    import json
    from drobench.registry import load_catalogue
    catalogue = load_catalogue()
    print(json.dumps({
        "solvers": {name: [it.plugin, it.distribution, it.version] for name, it in catalogue.solvers.items()},
        "troubles": [[trouble.plugin, trouble.distribution, trouble.message] for trouble in catalogue.troubles],
        "disabled": catalogue.disabled,
    }))
"""


def install(site: Path, distribution: str, plugin: str, code: str, *, metadata: bool = True) -> None:
    """Lay out a package with one plugin, whose module is called as the plugin."""
    (site / f"{plugin}.py").write_text(dedent(code))
    information = site / f"{distribution.replace('-', '_')}-3.4.dist-info"
    information.mkdir()
    (information / "entry_points.txt").write_text(f"[drobench]\n{plugin} = {plugin}\n")
    if metadata:
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 3.4\n")


def run(code: str, site: Path, **environment: str) -> str:
    # Our own plugins are left out: they are not what is tested here, and their import takes its time.
    variables = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(site), str(REPOSITORY)]),
        "DROBENCH_DISABLE_PLUGINS": "drobench_plugins",
    }
    finished = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        capture_output=True,
        text=True,
        cwd=site,
        env=variables | environment,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def show(site: Path, **environment: str) -> dict:
    return json.loads(run(SHOW, site, **environment))


def test_a_plugin_is_found_with_its_package_and_version_beside_one_that_fails(tmp_path):
    install(tmp_path, "good-package", "good_plugin", SOUND.format(name="good_solver"))
    install(tmp_path, "bad-package", "bad_plugin", "import a_module_that_nobody_has")
    install(tmp_path, "exiting-package", "exiting_plugin", "raise SystemExit(4)")
    found = show(tmp_path)
    assert found["solvers"]["good_solver"] == ["good_plugin", "good-package", "3.4"]
    assert [trouble[:2] for trouble in found["troubles"]] == [
        ["bad_plugin", "bad-package"],
        ["exiting_plugin", "exiting-package"],
    ]
    assert "No module named 'a_module_that_nobody_has'" in found["troubles"][0][2]
    assert "tried to end the program (SystemExit: 4)" in found["troubles"][1][2]


def test_a_plugin_that_hangs_on_import_is_reported_within_the_limit(tmp_path):
    install(tmp_path, "good-package", "good_plugin", SOUND.format(name="good_solver"))
    install(tmp_path, "a-hanging-package", "hanging_plugin", "import time\ntime.sleep(100)")
    started = time.monotonic()
    found = show(tmp_path, DROBENCH_PLUGIN_TIMEOUT="1")
    assert time.monotonic() - started < 60
    assert "good_solver" in found["solvers"]
    ((plugin, distribution, message),) = found["troubles"]
    assert (plugin, distribution) == ("hanging_plugin", "a-hanging-package")
    assert "took longer than 1 s" in message


def test_a_plugin_that_is_switched_off_is_listed_as_such(tmp_path):
    install(tmp_path, "bad-package", "bad_plugin", "raise RuntimeError")
    found = show(tmp_path, DROBENCH_DISABLE_PLUGINS="drobench_plugins,bad_plugin")
    assert "bad_plugin" in found["disabled"]
    assert found["troubles"] == []


def test_an_entry_point_to_nowhere_is_reported(tmp_path):
    install(tmp_path, "good-package", "good_plugin", SOUND.format(name="good_solver"))
    install(tmp_path, "bad-package", "bad_plugin", "")
    (tmp_path / "bad_package-3.4.dist-info" / "entry_points.txt").write_text("[drobench]\nbad_plugin = ???\n")
    found = show(tmp_path)
    assert "good_solver" in found["solvers"]
    assert [trouble[:2] for trouble in found["troubles"]] == [["bad_plugin", "bad-package"]]


def test_a_package_without_metadata_still_gives_its_plugin(tmp_path):
    install(tmp_path, "bare-package", "bare_plugin", SOUND.format(name="bare_solver"), metadata=False)
    found = show(tmp_path)
    assert found["solvers"]["bare_solver"] == ["bare_plugin", "unknown", "unknown"]
    assert found["troubles"] == []


def test_a_package_with_a_damaged_list_of_entry_points_does_not_hide_the_others(tmp_path):
    install(tmp_path, "good-package", "good_plugin", SOUND.format(name="good_solver"))
    install(tmp_path, "damaged-package", "damaged_plugin", "")
    (tmp_path / "damaged_package-3.4.dist-info" / "entry_points.txt").write_text("[drobench]\nno equals sign\n")
    found = show(tmp_path)
    assert found["solvers"]["good_solver"] == ["good_plugin", "good-package", "3.4"]
    assert found["troubles"], "the damaged package must be reported"
    assert all(distribution == "damaged-package" for _, distribution, _ in found["troubles"])


@pytest.mark.parametrize("heavy", ["torch", "hydra", "omegaconf", "numpy", "pytorch_lightning"])
def test_importing_the_registry_imports_nothing_heavy(tmp_path, heavy):
    assert run(f"import sys, drobench.registry; print({heavy!r} in sys.modules)", tmp_path).strip() == "False"
