"""Reading learning-to-rank data against scikit-learn's reader of the same file.

The slice of MSLR-WEB that the tests use: 5,000 documents of 136 features, 5.8 MB of text. All sides end with the same
numbers in memory.

    base      `sklearn.datasets.load_svmlight_file(..., query_id=True)`, which leaves them in a sparse matrix
    text      our parser, a dense matrix
    binary    the same table mapped from our binary cache, and every number of it read once
"""

import os
import tempfile
from pathlib import Path

from benchmarks.side_by_side import Comparison, least, machine, one_thread, table, timed

TEXT_GOAL, BINARY_GOAL = 1 / 3, 1 / 50
# About the ratio, so that all sides last equally long.
TEXT_TIMES, BINARY_TIMES = 5, 100
_NAME = "msn1.fold1.train.5k.txt"


def measure() -> list[Comparison]:
    """Return the ratios; none, and a line that says why, where the slice is absent."""
    root = Path(os.environ.get("DROBENCH_REAL_DATA") or Path(__file__).parents[2] / "shared" / "data")
    path = next(iter(root.rglob(_NAME)), None)
    if path is None:
        print(f"reading MSLR: skipped, {_NAME} is not in {root}; DROBENCH_REAL_DATA=DIR says where")
        return []
    # The library takes this at its first import; the other sides have one thread too.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from sklearn.datasets import load_svmlight_file

    from drobench_plugins.datasets import letor_cache
    from drobench_plugins.datasets.letor_text import parse_letor

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "stored"
        with path.open("rb") as stream:
            letor_cache.store(stream, path.name, folder)

        def binary() -> None:
            loaded = letor_cache.load(folder)
            loaded.features.sum()
            loaded.relevance.sum()
            loaded.queries.sum()

        seconds = least(
            [
                timed("sklearn", lambda: load_svmlight_file(str(path), query_id=True)),
                timed("text", lambda: parse_letor(path), times=TEXT_TIMES),
                timed("binary", binary, times=BINARY_TIMES),
            ]
        )
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


if __name__ == "__main__":
    one_thread()
    print(table(measure()))
    print(machine())
