"""The paper's Table 1, measured: the tables and the picture of docs/table1.md.

drobench sweep tune_table1 --results T
python -m benchmarks.studies.table1 T --tuning
drobench sweep table1 --results R
python -m benchmarks.studies.table1 R [--cells] [--picture docs/pictures/table1.png]
"""

import argparse
from pathlib import Path

from benchmarks.studies.table1 import tables
from benchmarks.studies.table1.families import collect, costs_of
from benchmarks.studies.table1.growth import sort

# Numbers of samples, and widths.
SMALL_CURVATURE = (16,), (0.1, 0.01)
SMALL_STORAGE = ((8, 16),)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", default="results", type=Path)
    parser.add_argument("--tuning", action="store_true", help="what the runs of tune_table1 chose, and nothing else")
    parser.add_argument("--cells", action="store_true", help="also the median of every cell")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--small", action="store_true", help="curvature and storage on a few samples only")
    arguments = parser.parse_args()
    if arguments.tuning:
        print(tables.tuning_table(arguments.results))
        return
    runs = collect(arguments.results)
    if not runs:
        raise SystemExit(f"No run of the table in {arguments.results}. Run `drobench sweep table1` first.")
    found = {name: sort(costs_of(name, each)) for name, each in runs.items()}
    titles = {
        "Exponents": tables.exponents(found),
        "Along m": tables.by_size(found),
        "Along 1/eps": tables.by_accuracy(found),
        "Left out": tables.not_fitted(found),
        "Curvature": tables.curvature_table(*(SMALL_CURVATURE if arguments.small else ())),
        "Storage": tables.storage_table(*(SMALL_STORAGE if arguments.small else ())),
    }
    if arguments.cells:
        titles["Cells"] = tables.medians(found)
    print("\n\n".join(f"## {title}\n\n{text}" for title, text in titles.items()))
    if arguments.picture is not None:
        from benchmarks.studies.table1.picture import draw

        draw(found, arguments.picture)
        print(f"\ndrawn: {arguments.picture}")


if __name__ == "__main__":
    main()
