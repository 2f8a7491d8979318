"""The circumstances of a run: versions, revision, hardware."""

import os
import platform
import resource
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from drobench.results.record import Environment

_DISTRIBUTIONS = ("drobench", "torch", "pytorch-lightning", "hydra-core", "numpy", "scipy", "scikit-learn", "polars")
_CHECKOUT = Path(__file__).resolve().parents[2]


def environment(threads: int, world_size: int) -> Environment:
    """Return the circumstances of a run in this process."""
    revision, dirty = _git_state()
    return Environment(
        versions=versions(),
        git_revision=revision,
        git_dirty=dirty,
        hardware=hardware(),
        threads=threads,
        world_size=world_size,
    )


@cache
def versions() -> dict[str, str]:
    """Return Python's version and those of the packages that matter to a result."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


@cache
def hardware() -> dict[str, Any]:
    """Return processor, cores, memory and GPUs."""
    import torch

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "gpus": gpus,
        "system": f"{platform.system()} {platform.release()}",
    }


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in kibibytes, macOS in bytes.
    return peak if sys.platform == "darwin" else peak * 1024


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@cache
def _git_state() -> tuple[str | None, bool | None]:
    """Return revision and dirty flag of the checkout that the code runs from, or nothing for an installed package."""
    if not (_CHECKOUT / ".git").exists():
        return None, None
    revision = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return revision, None if changes is None else bool(changes)


def _git(*arguments: str) -> str | None:
    try:
        command = ["git", "-C", str(_CHECKOUT), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603  # fixed words
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
