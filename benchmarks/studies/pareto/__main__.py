"""Error against violation: what each method reaches with its own dial, from `drobench sweep pareto`.

    python -m benchmarks.studies.pareto [RESULTS]
    python -m benchmarks.studies.pareto --small       a few runs on synthetic data, computed first

A setting of a dial gives a point in the plane of error and largest violation, of which only what is above zero counts.
The first table has the share of the rectangle between zero and a fixed corner that the points of a method dominate
together, the second the differences from GCIVR on the same splits: exact signed-rank tests, adjusted by Holm among the
other methods of a task, for training and test rows each. Then follow the medians over splits at every setting. All
methods have the same number of settings, but training without constraints, which has no dial; the point is the one
that the method returns (`last`), and nothing is chosen by looking at test rows.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.speed.side_by_side import add_small
from benchmarks.studies.pareto.runs import Measured, load
from benchmarks.studies.pareto.tables import corner_line, front_tables, paired_table, volume_table
from drobench import run
from drobench.app.config import data_dir
from drobench.app.sweep_file import load_sweep

_SMALL = ("dataset=communities_twin", "dataset.rows=200", "budget.steps=20")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", default="results", type=Path)
    add_small(parser)
    chosen = parser.parse_args()
    if not chosen.small:
        show(load(chosen.results))
        return
    with tempfile.TemporaryDirectory() as folder:
        for cell in load_sweep(data_dir("sweeps") / "pareto_intersectional.yaml").cells:
            if "seed=0" in cell:
                run(*cell, *_SMALL, results=folder)
        show(load(Path(folder)))


def show(found: list[Measured]) -> None:
    """Print the tables of these runs."""
    print(f"{corner_line(found)}\n\n{volume_table(found)}\n\n{paired_table(found)}")
    for title, text in front_tables(found):
        print(f"\n{title[0].upper()}{title[1:]}:\n\n{text}")
    lost = sum(measured.lost for measured in found)
    if lost:
        print(f"\nRuns that returned nothing: {lost}. Their splits are left out for their method.")


if __name__ == "__main__":
    main()
