"""Wall time, CPU time and memory of a piece of work.

The text of this file is also run under the interpreters of other packages: it needs nothing but Python itself.
"""

import ctypes
import math
import resource
import time
from pathlib import Path


class Meter:
    """Wall time, CPU time and growth of the resident set of a piece of work in this process."""

    def __init__(self) -> None:
        _trim()
        self.before = _resident("VmRSS")
        self.resettable = _reset_peak()
        self.began = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return what was used since the beginning."""
        wall, cpu = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        peak = _resident("VmHWM") if self.resettable else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"seconds": wall, "cpu_seconds": cpu, "megabytes": peak - self.before}


def _resident(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return math.nan


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _trim() -> None:
    """Give freed memory back, so that using it again counts."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return


def least_of(readings: list[dict[str, float]]) -> dict[str, float]:
    """Return the least times, and the memory of the first time: later ones find memory that was not given back."""
    times = {name: min(reading[name] for reading in readings) for name in ("seconds", "cpu_seconds")}
    return {**times, "megabytes": readings[0]["megabytes"]}
