"""`drobench --help` against `import hydra`, each in a new process."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.side_by_side import Comparison, least, machine, table, timed

GOAL = 2.0


def measure() -> list[Comparison]:
    """Return the ratio."""
    console_script = Path(sys.executable).with_name("drobench")
    seconds = least(
        [
            timed("help", _process(str(console_script), "--help")),
            timed("hydra", _process(sys.executable, "-c", "import hydra")),
        ]
    )
    return [Comparison("drobench --help / import hydra", seconds["help"], seconds["hydra"], GOAL)]


def _process(*command: str) -> Callable[[], None]:
    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return run


if __name__ == "__main__":
    print(table(measure()))
    print(machine())
