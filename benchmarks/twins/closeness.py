"""How close the synthetic twins are to the real data: the tables of docs/twins.md.

    python -m benchmarks.twins.closeness [--data DIR]       needs the real data; without them it says so and stops
    python -m benchmarks.twins.closeness --small            a few rows of the twins in place of the real data

Every number is the mean over seeds, and its deviation over them where it has one. A seed means another split of the
real data, another instance and split of a twin.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from benchmarks.real_data import RealData, add_data_option, explain_absence, find_real_data
from benchmarks.twins import raw_files
from benchmarks.twins.statistics import adult_statistics, communities_statistics, mslr_statistics
from drobench.data.dataset import Dataset
from drobench_plugins.datasets import adult, adult_twin, communities_crime, communities_twin, mslr, mslr_twin
from drobench_plugins.datasets.letor_text import parse_letor

Statistics = Mapping[str, float]
Source = Callable[[int], Dataset]


class Sizes(NamedTuple):
    """How much is drawn of each twin; as it stands, as much as there is of the real data."""

    adult: int = adult_twin.AdultTwinConfig.rows
    communities: int = communities_twin.CommunitiesTwinConfig.rows
    slices: Sequence[int] = (20, 0, 18)
    """Queries in the size of the real slices."""
    queries: Sequence[int] = (1000, 100, 100)


FULL = Sizes()
SEEDS = range(5)
SMALL = Sizes(2 * raw_files.ROWS, raw_files.ROWS, (3, 0, 3), (6, 3, 3))
SMALL_SEEDS = range(2)


def main() -> None:
    """Measure and print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    parser.add_argument("--small", action="store_true", help="a few rows of the twins in place of the real data")
    options = parser.parse_args()
    if options.small:
        with tempfile.TemporaryDirectory() as folder:
            print(tables(raw_files.write_files(Path(folder)), SMALL, SMALL_SEEDS))
        return
    data = find_real_data(options.data)
    if data is None:
        raise SystemExit(explain_absence(options.data))
    print(tables(data, FULL, SEEDS))


def tables(data: RealData, sizes: Sizes, seeds: Sequence[int]) -> str:
    """Return one table for each of the three twins."""
    # Sums over several threads run in no fixed order, and the last digit shown could change.
    with threadpool_limits(limits=1):
        return "\n\n".join(
            (
                _table(adult_sources(data, sizes), adult_statistics, seeds),
                _table(communities_sources(data, sizes), communities_statistics, seeds),
                _table(mslr_sources(data, sizes), mslr_statistics, seeds),
            )
        )


def adult_sources(data: RealData, sizes: Sizes = FULL) -> dict[str, Source]:
    """Return how to get the real data and the twin for a seed."""
    table, twin = adult.read_table(data.adult), adult_twin.AdultTwinConfig
    return {
        "adult": lambda seed: adult.adult_dataset("adult", table, adult.AdultConfig(seed=seed)),
        "adult_twin": lambda seed: adult_twin.load_adult_twin(twin(seed=seed, rows=sizes.adult)),
    }


def communities_sources(data: RealData, sizes: Sizes = FULL) -> dict[str, Source]:
    """Return how to get the real data and the twin for a seed."""
    table = communities_crime.read_table(data.communities)
    real, twin = communities_crime.CommunitiesCrimeConfig, communities_twin.CommunitiesTwinConfig
    return {
        "communities_crime": lambda seed: communities_crime.communities_dataset(
            "communities_crime", table, real(seed=seed)
        ),
        "communities_twin": lambda seed: communities_twin.load_communities_twin(
            twin(seed=seed, rows=sizes.communities)
        ),
    }


def mslr_sources(data: RealData, sizes: Sizes = FULL) -> dict[str, Source]:
    """Return how to get the real slices, the twin in their size, and the twin in full."""
    slices = {split: parse_letor(path) for split, path in data.mslr.items()}
    twin = mslr_twin.MslrTwinConfig
    return {
        "mslr (slices)": lambda seed: mslr.mslr_dataset("mslr", slices, mslr.MslrConfig(seed=seed)),
        "mslr_twin, same size": lambda seed: mslr_twin.load_mslr_twin(twin(seed=seed, queries=list(sizes.slices))),
        "mslr_twin": lambda seed: mslr_twin.load_mslr_twin(twin(seed=seed, queries=list(sizes.queries))),
    }


def _table(sources: Mapping[str, Source], statistics: Callable[[Dataset], Statistics], seeds: Sequence[int]) -> str:
    columns = {name: [statistics(source(seed)) for seed in seeds] for name, source in sources.items()}
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for label in next(iter(columns.values()))[0]:
        cells = [_cell(np.array([result[label] for result in results])) for results in columns.values()]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(values: np.ndarray) -> str:
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    if mean >= 10:
        return f"{mean:,.0f}" + (f" ± {deviation:,.0f}" if deviation >= 0.5 else "")
    return f"{mean:.3f}" + (f" ± {deviation:.3f}" if deviation >= 0.0005 else "")


if __name__ == "__main__":
    main()
