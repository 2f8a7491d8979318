"""The memory of a sweep's command and of its fork server, over many cells."""

import contextlib
import time
from pathlib import Path

from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Command, Family
from benchmarks.faults.small import SMALL, write_sweep

MOST_GROWTH = 8.0
"""Megabytes that either may have more at the end than after the first cells."""
_FIRST = 0.1
_POLL_SECONDS = 0.1


def look(count: int, seed: int) -> Outcome:
    """Compute so many cells and compare the memory at the end with that after a tenth of them."""
    outcome = Outcome(count)
    with Family() as family:
        words = [*SMALL[:-1], "budget.steps=1", "solver=scgd"]
        file = write_sweep(family.folder / "many.yaml", [{"grid": {"seed": list(range(seed, seed + count))}}], words)
        results = family.folder / "results"
        command = family.start("sweep", file, "--jobs", "2", "--results", results)
        samples = _sampled(family, command, results, count)
        ended = command.wait(600.0)
        outcome.findings += ended.troubles("sweep")
        outcome.expect(ended.code == 0, f"sweep: ended with {ended.code}: {ended.text[-800:]}")
        outcome.findings += family.left_behind()
    for who, seen in samples.items():
        if not seen:
            outcome.findings.append(f"the memory of the {who} was never seen")
            continue
        growth = seen[-1] - seen[0]
        outcome.note += f"{'; ' if outcome.note else ''}{who} {growth:+.1f} MB"
        outcome.expect(growth < MOST_GROWTH, f"the {who} grew from {seen[0]:.0f} to {seen[-1]:.0f} MB")
    return outcome


def _sampled(family: Family, command: Command, results: Path, count: int) -> dict[str, list[float]]:
    """Return megabytes over time, from a tenth of the cells until one is left to do."""
    samples: dict[str, list[float]] = {"command": [], "fork server": []}
    while command.process.poll() is None:
        done = sum(1 for _ in results.glob("*/record.json"))
        if max(2, _FIRST * count) <= done < count - 1:
            serving = {process.number: process.parent for process in family.living() if "forkserver" in process.words}
            servers = [number for number, parent in serving.items() if parent not in serving]
            for who, numbers in (("command", [command.process.pid]), ("fork server", servers)):
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    samples[who] += [_megabytes(number) for number in numbers]
        time.sleep(_POLL_SECONDS)
    return samples


def _megabytes(process: int) -> float:
    """Return the memory that a process shares with no file."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"process {process} has ended")
