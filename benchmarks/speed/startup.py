"""Commands that only need names, and runs until they are done, beside what they must import; in processor seconds."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.speed.side_by_side import Comparison, Side, least, print_comparisons, repeats, timed

NAMES_GOAL = 1.0
"""Seconds for a command that needs names alone."""
AGAIN_GOAL = 1.5
"""Seconds for a finished run that is asked for again."""
RUN_GOAL = 1.3
"""Ratio of a run of one step to the import of torch and Lightning."""
_RUN = ("run", "dataset=synthetic", "dataset.rows=100", "solver=scgd", "budget.passes=null", "budget.steps=1")
_NAMES = {
    "run --help": ("run", "--help"),
    "run solver=gcvir": ("run", "solver=gcvir"),
    "completion": ("completion", "--query", "drobench run solver=gc"),
    "plugins": ("plugins",),
    "help solver gcivr": ("help", "solver", "gcivr"),
    "runs": ("runs",),
    "leaderboard": ("leaderboard",),
}


def measure(small: bool = False) -> list[Comparison]:
    """Return the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        call = _Caller(Path(folder))
        call(*_RUN)  # so that there is a run, its optimum, and a list of the plugins
        seeds = count(1)
        sides = [
            call.timed("hydra", lambda: call.python("import hydra")),
            call.timed("torch", lambda: call.python("import torch, pytorch_lightning")),
            call.timed("again", lambda: call(*_RUN)),
            call.timed("run", lambda: call(*_RUN, f"seed={next(seeds)}")),
            *_of_names(call),
        ]
        seconds = least(sides, repeats(small))
    hydra, torch = seconds["hydra"], seconds["torch"]
    return [
        *(Comparison(f"drobench {name} / import hydra", seconds[name], hydra, NAMES_GOAL / hydra) for name in _NAMES),
        Comparison("a finished run again / import hydra", seconds["again"], hydra, AGAIN_GOAL / hydra),
        Comparison("a run of one step / import torch, pytorch_lightning", seconds["run"], torch, RUN_GOAL),
    ]


def _of_names(call: "_Caller") -> Iterator[Side]:
    for name, words in _NAMES.items():
        yield call.timed(name, lambda words=words: call(*words))


class _Caller:
    """Calls programs with a cache and results of their own, each in a new process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(folder / "cache"),
            "DROBENCH_RESULTS": str(folder / "results"),
            "OMP_NUM_THREADS": "1",
        }

    def __call__(self, *words: str) -> None:
        self._run(str(Path(sys.executable).with_name("drobench")), *words)

    def python(self, code: str) -> None:
        self._run(sys.executable, "-c", code)

    def timed(self, name: str, work: Callable[[], object]) -> Side:
        return timed(name, work, clock=_processor_seconds)

    def _run(self, *command: str) -> None:
        # A misspelt name ends with 2, which is what is measured.
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 2):
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")


def _processor_seconds() -> float:
    """Return what all processes started from here have used, whatever else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    print_comparisons(__doc__, measure)


if __name__ == "__main__":
    main()
