"""Measuring several things in turn, and showing their times as ratios."""

import argparse
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

REPEATS = 5
_PACKAGES = ("drobench", "torch", "numpy", "pytorch-lightning", "hydra-core")

Side = Callable[[], Mapping[str, float]]
"""Does its work once and returns the seconds it took, under one or more names."""


class Comparison(NamedTuple):
    """One line of a table: how long something takes against a base."""

    what: str
    seconds: float
    base_seconds: float
    goal: float | None = None
    """The largest ratio wanted; `None`: for information only."""

    @property
    def ratio(self) -> float:
        """How many times as long as the base."""
        return self.seconds / self.base_seconds


def one_thread() -> None:
    """Keep torch to one thread: that is what runs are compared with, and it makes times steadier."""
    import torch

    torch.set_num_threads(1)


def timed(
    name: str, work: Callable[[], object], times: int = 1, clock: Callable[[], float] = time.perf_counter
) -> Side:
    """Return a side that does `work` and reports what it took under `name`.

    Args:
        name: What the seconds are of.
        work: What is measured.
        times: How often it is done in one go, of which the mean counts. A short side that is done as often as the long
            one lasts has no better chance of a quiet moment.
        clock: The default is the wall clock; `time.process_time` leaves out the times in which other programs run.
    """

    def side() -> Mapping[str, float]:
        begin = clock()
        for _ in range(times):
            work()
        return {name: (clock() - begin) / times}

    return side


def least(sides: Sequence[Side], repeats: int = REPEATS) -> dict[str, float]:
    """Return the least seconds of every name.

    The sides take turns (A B A B ...), so that a slow moment of the machine falls on all of them. One round before the
    first counts for nothing: it fills caches and loads what is loaded on first use.
    """
    for side in sides:
        side()
    seconds: dict[str, float] = {}
    for _ in range(repeats):
        for side in sides:
            for name, spent in side().items():
                seconds[name] = min(spent, seconds.get(name, spent))
    return seconds


def table(comparisons: Iterable[Comparison]) -> str:
    """Return the comparisons as aligned text."""
    lines = [("what", "time", "base", "ratio", "goal", "met")]
    for line in comparisons:
        goal = "-" if line.goal is None else f"{line.goal:.2g}"
        met = "-" if line.goal is None else "yes" if line.ratio <= line.goal else "NO"
        lines.append((line.what, _duration(line.seconds), _duration(line.base_seconds), f"{line.ratio:.3g}", goal, met))
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        ).rstrip()
        for first, *rest in lines
    )


def print_comparisons(text: str | None, measure: Callable[[bool], Iterable[Comparison]]) -> None:
    """Be the program of one file: read its command line, measure, and print the table.

    Args:
        text: What `--help` says.
        measure: Returns the lines; called with whether the small form is wanted.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_small(parser)
    small = parser.parse_args().small
    one_thread()
    print(table(measure(small)))
    print(machine())


def add_small(parser: argparse.ArgumentParser) -> None:
    """Give a program its small form."""
    parser.add_argument("--small", action="store_true", help="sizes for seconds: shows that it runs, not how fast")


def repeats(small: bool) -> int:
    """Return how often to measure."""
    return 1 if small else REPEATS


def machine() -> str:
    """Return processor, threads and versions in one line."""
    import torch

    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return f"{_processor()}, {torch.get_num_threads()} thread; Python {platform.python_version()}, {packages}"


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{seconds * 1e3:.3g} ms"
