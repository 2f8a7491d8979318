"""Reading learning-to-rank data against scikit-learn's reader of the same file.

    python -m benchmarks.speed.parsing [--data DIR | --small]

The slice of MSLR-WEB that the tests use: 5,000 documents of 136 features, 5.8 MB of text; in the small form a few
queries of `mslr_twin`. All sides end with the same numbers in memory.

    base      `sklearn.datasets.load_svmlight_file(..., query_id=True)`, which leaves them in a sparse matrix
    text      our parser, a dense matrix
    binary    the same table mapped from our binary cache, and every number of it read once
"""

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.real_data import MSLR, VARIABLE, add_data_option, find_file, folder_to_search
from benchmarks.speed.side_by_side import Comparison, add_small, least, machine, one_thread, repeats, table, timed

TEXT_GOAL, BINARY_GOAL = 1 / 3, 1 / 50
# About the ratio, so that all sides last equally long.
TEXT_TIMES, BINARY_TIMES = 5, 100


def measure(small: bool = False, data: Path | None = None) -> list[Comparison]:
    """Return the ratios; none, and a line that says why, where the slice is absent."""
    # The library takes this at its first import; the other sides have one thread too.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    with tempfile.TemporaryDirectory() as name:
        path = _small_file(Path(name) / "twin.txt") if small else find_file(MSLR["train"], data)
        if path is None:
            where = f"--data DIR or {VARIABLE} says where"
            print(f"reading MSLR: skipped, {MSLR['train']} is not in {folder_to_search(data)}; {where}")
            return []
        seconds = _seconds(path, Path(name) / "stored", small)
    return [
        # The ratios are too small for two digits, so the label has them the other way round.
        Comparison(
            f"reading MSLR {side} / scikit-learn ({seconds['sklearn'] / seconds[side]:.0f}x faster)",
            seconds[side],
            seconds["sklearn"],
            goal,
        )
        for side, goal in (("text", TEXT_GOAL), ("binary", BINARY_GOAL))
    ]


def _seconds(path: Path, folder: Path, small: bool) -> dict[str, float]:
    from sklearn.datasets import load_svmlight_file

    from drobench_plugins.datasets import letor_cache
    from drobench_plugins.datasets.letor_text import parse_letor

    with path.open("rb") as stream:
        letor_cache.store(stream, path.name, folder)

    def binary() -> None:
        loaded = letor_cache.load(folder)
        loaded.features.sum()
        loaded.relevance.sum()
        loaded.queries.sum()

    text_times, binary_times = (1, 1) if small else (TEXT_TIMES, BINARY_TIMES)
    sides = [
        timed("sklearn", lambda: load_svmlight_file(str(path), query_id=True)),
        timed("text", lambda: parse_letor(path), times=text_times),
        timed("binary", binary, times=binary_times),
    ]
    return least(sides, repeats(small))


def _small_file(path: Path) -> Path:
    from benchmarks.twins.raw_files import QUERIES, SEED, write_letor
    from drobench_plugins.datasets.mslr_twin import draw_tables

    return write_letor(path, draw_tables([QUERIES, 0, 0], SEED)["train"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    add_small(parser)
    options = parser.parse_args()
    one_thread()
    print(table(measure(options.small, options.data)))
    print(machine())


if __name__ == "__main__":
    main()
