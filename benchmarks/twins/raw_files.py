"""The twins written as the publishers write their files, for programs that are to run where no real data are."""

from pathlib import Path

import numpy as np

from benchmarks.real_data import ADULT, COMMUNITIES, MSLR, RealData
from drobench_plugins.datasets import adult_twin, communities_twin, mslr_twin
from drobench_plugins.datasets.communities_columns import IDENTIFIERS
from drobench_plugins.datasets.letor_text import LetorTable

ROWS = 600
QUERIES = 3
SEED = 0


def write_files(folder: Path) -> RealData:
    """Write a few rows of each twin into `folder`, under the names of the real files."""
    tables = mslr_twin.draw_tables([QUERIES, 0, QUERIES], SEED)
    return RealData(
        tuple(_adult(folder / name, seed) for seed, name in enumerate(ADULT, start=SEED)),
        _communities(folder / COMMUNITIES),
        {split: write_letor(folder / name, tables[split]) for split, name in MSLR.items()},
    )


def _adult(path: Path, seed: int) -> Path:
    table = adult_twin.draw_table(ROWS, seed)
    path.write_text("\n".join(", ".join(map(str, row)) for row in table.rows()) + "\n", encoding="ascii")
    return path


def _communities(path: Path) -> Path:
    table = communities_twin.draw_table(ROWS, SEED)
    unknown = ["?"] * len(IDENTIFIERS)
    lines = (",".join([*unknown, *("?" if value is None else str(value) for value in row)]) for row in table.rows())
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


def write_letor(path: Path, table: LetorTable) -> Path:
    """Write documents as learning-to-rank data are: `2 qid:1 1:3 2:3 ... 136:0`."""
    # Query numbers begin with 1, and as the file has them in order, so do the rows of a query stand together.
    order = np.argsort(table.queries, kind="stable")
    lines = [
        f"{table.relevance[row]} qid:{table.queries[row] + 1} "
        + " ".join(f"{number}:{value:g}" for number, value in enumerate(table.features[row], start=1))
        for row in order
    ]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path
