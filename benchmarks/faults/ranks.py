"""Ranks of two-process cells killed at random moments, in a sweep with other cells."""

import random
import time
from pathlib import Path

from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Command, Family, Process, kill
from benchmarks.faults.small import write_sweep

CELLS_OF_ONE_SWEEP = 4
_LONGEST = 600.0


def look(count: int, seed: int) -> Outcome:
    """Kill so many ranks, each in a cell of its own, some cells for each sweep."""
    outcome, draw = Outcome(), random.Random(seed)
    with Family() as family:
        number = 0
        while outcome.cases < count:
            number += 1
            cells = min(CELLS_OF_ONE_SWEEP, count - outcome.cases)
            outcome.add(_sweep(family, number, cells, draw))
    return outcome


def _sweep(family: Family, number: int, cells: int, draw: random.Random) -> Outcome:
    from drobench.results.store import ResultStore

    parts = [
        {
            "overrides": ["solver=gcivr", "trainer=ddp_cpu", "budget.steps=1000000000", "timeout=200"],
            "grid": {"seed": list(range(cells))},
        },
        {"overrides": ["solver=gcivr"], "grid": {"seed": [100, 101]}},
    ]
    file = write_sweep(family.folder / f"ranks{number}.yaml", parts)
    results = family.folder / f"results{number}"
    command = family.start("sweep", file, "--jobs", "2", "--results", results)
    killed = _kill_one_of_each(family, command, cells, draw)
    ended = command.wait(_LONGEST)
    outcome = Outcome(len(killed), ended.troubles("sweep"))
    outcome.expect(len(killed) == cells, f"only {len(killed)} of {cells} cells had ranks to kill: {ended.text[-800:]}")
    outcome.expect(ended.code == 1, f"sweep: ended with {ended.code}: {ended.text[-800:]}")
    outcome.findings += family.left_behind()
    records = {record.seed: record for record in ResultStore(results).records().records}
    outcome.expect(sorted(records) == [*range(cells), 100, 101], f"records of the seeds {sorted(records)}")
    for seed, record in records.items():
        expected = f"rank {killed[seed]} was killed by signal 9" if seed in killed else None
        found = record.reason or ""
        named = str(record.status) == "failed" and expected in found if expected else record.status == "budget_spent"
        outcome.expect(named, f"seed {seed}, killed rank {killed.get(seed)}: {record.status}, {found}")
    return outcome


def _kill_one_of_each(family: Family, command: Command, cells: int, draw: random.Random) -> dict[int, int]:
    """Kill one rank of each cell some time after both are there; return which, by the seed of the cell."""
    due: dict[int, tuple[float, int]] = {}
    killed: dict[int, int] = {}
    while command.process.poll() is None and len(killed) < cells:
        for seed, ranks in _ranks_by_seed(family.living()).items():
            if seed in killed or len(ranks) < 2:
                continue
            moment, rank = due.setdefault(seed, (time.monotonic() + draw.uniform(0.0, 12.0), draw.randrange(2)))
            if time.monotonic() >= moment:
                kill(ranks[rank])
                killed[seed] = rank
        time.sleep(0.05)
    return killed


def _ranks_by_seed(living: list[Process]) -> dict[int, dict[int, int]]:
    """Return the processes that are ranks, by the seed of their cell, which is in the configuration they were given."""
    found: dict[int, dict[int, int]] = {}
    for process in living:
        rank = next((word for word in process.variables if word.startswith("RANK=")), None)
        file = next((Path(word) for word in process.words.split() if word.endswith("resolved.yaml")), None)
        if rank is None or file is None or not file.exists():
            continue
        seeds = [line for line in file.read_text().splitlines() if line.startswith("seed:")]
        if seeds:
            found.setdefault(int(seeds[0].split()[1]), {})[int(rank.partition("=")[2])] = process.number
    return found
