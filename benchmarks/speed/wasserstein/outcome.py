"""What one method did on one instance, and what all of them are told."""

import math
from dataclasses import dataclass

TARGET = 1e-5
TIME_LIMIT = 900.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
REFERENCE, COMMON, GCIVR = "cvxpy/Clarabel, 1e-10", "cvxpy/Clarabel, 1e-8", "GCIVR"


@dataclass(frozen=True)
class Outcome:
    """What one method did on one instance."""

    method: str
    rows: int
    seconds: float = math.nan
    cpu_seconds: float = math.nan
    value: float = math.nan
    """The exact risk of what it returned."""
    megabytes: float = math.nan
    bound: float = -math.inf
    """A lower bound on the optimum, if it came with one."""
    note: str = ""

    @property
    def failed(self) -> bool:
        """Whether there is no result."""
        return math.isnan(self.value)


def last_line(text: str | None) -> str:
    """Return the last line of what a program that failed had to say."""
    lines = [line for line in (text or "").splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1].strip()[:120] if lines else "no message"
