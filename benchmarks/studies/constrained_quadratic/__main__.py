"""What theory says of many constraints, measured: the tables of docs/constrained-quadratic.md.

    python -m benchmarks.studies.constrained_quadratic [projection | penalty | sampling | accuracy] [--small]

prints all tables or one of them: what the one projection at the end costs against what it may cost, what weight makes
the penalty exact, and how the cost of an accuracy grows with the number of constraints. Everything is seeded, and
costs are counted, not timed.
"""

import argparse

import torch

from benchmarks.studies.constrained_quadratic.costs import accuracy_table, sampling_table
from benchmarks.studies.constrained_quadratic.penalty import penalty_table
from benchmarks.studies.constrained_quadratic.projection import projection_table

TABLES = {
    "projection": projection_table,
    "penalty": penalty_table,
    "sampling": sampling_table,
    "accuracy": accuracy_table,
}


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", choices=sorted(TABLES))
    parser.add_argument("--small", action="store_true", help="one small instance for each line")
    options = parser.parse_args()
    # Sums in another order round differently.
    torch.set_num_threads(1)
    with torch.no_grad():
        for name, table in TABLES.items():
            if options.table in (None, name):
                for line in table(options.small):
                    print(line, flush=True)
                print()


if __name__ == "__main__":
    main()
