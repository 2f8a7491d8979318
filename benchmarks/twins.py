"""How close the synthetic twins are to the real data: a table for each, in Markdown.

python -m benchmarks.twins              needs the real data; without them it says so and stops

Every number is the mean over seeds, and its deviation over them where it has one. A seed means another split of the
real data, another instance and split of a twin. The tables of docs/twins.md are the output of this program.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.real_data import explain_absence, real_folder
from benchmarks.twin_statistics import adult_statistics, communities_statistics, mslr_statistics
from drobench.data.dataset import Dataset
from drobench_plugins.datasets import adult, adult_twin, communities_crime, communities_twin, mslr, mslr_twin
from drobench_plugins.datasets.letor_text import parse_letor

SEEDS = range(5)
Statistics = Mapping[str, float]
Source = Callable[[int], Dataset]


def main() -> None:
    """Measure and print everything."""
    folder = real_folder()
    if folder is None:
        print(explain_absence())
        return
    # Sums over several threads run in no fixed order, and the last digit shown could change.
    with threadpool_limits(limits=1):
        print(_table(adult_sources(folder), adult_statistics), end="\n\n")
        print(_table(communities_sources(folder), communities_statistics), end="\n\n")
        print(_table(mslr_sources(folder), mslr_statistics))


def adult_sources(folder: Path) -> dict[str, Source]:
    """Return how to get the real data and the twin for a seed."""
    table = adult.read_table([folder / "adult" / "adult.data", folder / "adult" / "adult.test"])
    return {
        "adult": lambda seed: adult.adult_dataset("adult", table, adult.AdultConfig(seed=seed)),
        "adult_twin": lambda seed: adult_twin.load_adult_twin(adult_twin.AdultTwinConfig(seed=seed)),
    }


def communities_sources(folder: Path) -> dict[str, Source]:
    """Return how to get the real data and the twin for a seed."""
    table = communities_crime.read_table(folder / "communities" / "communities.data")
    real, twin = communities_crime.CommunitiesCrimeConfig, communities_twin.CommunitiesTwinConfig
    return {
        "communities_crime": lambda seed: communities_crime.communities_dataset(
            "communities_crime", table, real(seed=seed)
        ),
        "communities_twin": lambda seed: communities_twin.load_communities_twin(twin(seed=seed)),
    }


def mslr_sources(folder: Path) -> dict[str, Source]:
    """Return how to get the real slices, the twin in their size, and the twin in full."""
    slices = {
        split: parse_letor(folder / "mslr_web_slice" / f"msn1.fold1.{split}.5k.txt") for split in ("train", "test")
    }
    twin = mslr_twin.MslrTwinConfig
    return {
        "mslr (slices)": lambda seed: mslr.mslr_dataset("mslr", slices, mslr.MslrConfig(seed=seed)),
        "mslr_twin, same size": lambda seed: mslr_twin.load_mslr_twin(twin(seed=seed, queries=[20, 0, 18])),
        "mslr_twin": lambda seed: mslr_twin.load_mslr_twin(twin(seed=seed)),
    }


def _table(sources: Mapping[str, Source], statistics: Callable[[Dataset], Statistics]) -> str:
    columns = {name: [statistics(source(seed)) for seed in SEEDS] for name, source in sources.items()}
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
