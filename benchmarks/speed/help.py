"""`drobench --help` against `import hydra`, each in a new process."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.speed.side_by_side import Comparison, least, print_comparisons, repeats, timed

GOAL = 2.0


def measure(small: bool = False) -> list[Comparison]:
    """Return the ratio."""
    console_script = Path(sys.executable).with_name("drobench")
    seconds = least(
        [
            timed("help", _process(str(console_script), "--help")),
            timed("hydra", _process(sys.executable, "-c", "import hydra")),
        ],
        repeats(small),
    )
    return [Comparison("drobench --help / import hydra", seconds["help"], seconds["hydra"], GOAL)]


def _process(*command: str) -> Callable[[], None]:
    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return run


def main() -> None:
    """Measure and print."""
    print_comparisons(__doc__, measure)


if __name__ == "__main__":
    main()
