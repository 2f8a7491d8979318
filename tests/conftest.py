"""How examples are drawn, and packages of strangers, installed as pip would, without network and within seconds."""

import gc
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every machine and every day: what fails once fails again. Our fixtures build things and remember
# nothing, so that all examples of a test may share one.
settings.register_profile(
    "drobench",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("drobench")


@dataclass(frozen=True)
class StrangersEnvironment:
    """A virtual environment with some packages of its own, and ours for everything else."""

    python: Path
    folder: Path
    """An empty folder to work in."""

    def call(self, *words: object, code: int = 0, cwd: Path | None = None, **variables: str) -> str:
        """Run a Python command line, such as `-m pytest`, expect its exit code and return what it printed."""
        hidden = ("PYTHONPATH", "DROBENCH_RESULTS", "DROBENCH_DISABLE_PLUGINS")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        done = subprocess.run(
            [self.python, *map(str, words)],
            # Wide, so that no table is folded, whatever width the tests themselves run under.
            env={**environment, "OMP_NUM_THREADS": "1", "COLUMNS": "250", **variables},
            cwd=cwd or self.folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def drobench(self, *words: object, code: int = 0, **options) -> str:
        """Run the command line of drobench."""
        return self.call("-c", "from drobench.app.cli import main; main()", *words, code=code, **options)


def _build_wheel(package: Path, folder: Path) -> Path:
    before = set(folder.glob("*.whl"))
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(words, cwd=package, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = set(folder.glob("*.whl")) - before
    return wheel


@pytest.fixture(scope="session")
def install_packages(tmp_path_factory) -> Callable[..., StrangersEnvironment]:
    """Build wheels of some source folders, and install them in a new environment beside the drobench under test."""
    import drobench
    import drobench_plugins

    def install(*packages: Path) -> StrangersEnvironment:
        folder = tmp_path_factory.mktemp("stranger")
        wheels = folder / "wheels"
        wheels.mkdir()
        built = [_build_wheel(package, wheels) for package in packages]
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        python = folder / "venv" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
        if built:
            subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", *built], check=True)
        # Only now, or pip would look at our packages too. A path file does not read the path files beside those
        # packages, so a drobench that is installed as a source tree has to be named.
        (site,) = folder.glob("venv/lib/python*/site-packages")
        sources = [Path(module.__file__).parents[1] for module in (drobench, drobench_plugins)]
        (site / "ours.pth").write_text("\n".join([*map(str, sources), sysconfig.get_path("purelib"), ""]))
        work = folder / "work"
        work.mkdir()
        return StrangersEnvironment(python, work)

    return install


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector pass over what collecting has made, which stays: a look at it takes half a second."""
    gc.collect()
    gc.freeze()
