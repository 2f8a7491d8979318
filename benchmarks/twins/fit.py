"""The tables of the synthetic twins, fitted to the real data and written beside the twins' modules.

python -m benchmarks.twins.fit [--data DIR]        all of them
python -m benchmarks.twins.fit --check             write nothing; exit with 1 if the fit gives other files
python -m benchmarks.twins.fit --small             write nothing; fit to a few rows of the twins themselves
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from benchmarks.real_data import RealData, add_data_option, explain_absence, find_real_data
from benchmarks.twins import fit_adult, fit_communities, fit_mslr
from benchmarks.twins.raw_files import write_files

FITS = {"adult_twin": fit_adult.fit, "communities_twin": fit_communities.fit, "mslr_twin": fit_mslr.fit}
TARGET = Path(__file__).resolve().parents[2] / "plugins" / "drobench_plugins" / "datasets"


def main() -> int:
    """Fit everything; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    parser.add_argument("--check", action="store_true", help="only compare with the files that are there")
    parser.add_argument("--small", action="store_true", help="fit to a few rows of the twins themselves")
    options = parser.parse_args()
    if options.small:
        with tempfile.TemporaryDirectory() as folder:
            fit_all(write_files(Path(folder)), write=False)
        return 0
    data = find_real_data(options.data)
    if data is None:
        raise SystemExit(explain_absence(options.data))
    different = fit_all(data, write=not options.check)
    return int(options.check and different > 0)


def fit_all(data: RealData, write: bool) -> int:
    """Fit and perhaps write the table of every twin; return how many are not what is there."""
    different = 0
    # With one thread sums run in one order, so that every fit gives the same bytes.
    with threadpool_limits(limits=1):
        for name, fit in FITS.items():
            text = as_text(fit(data)) + "\n"
            path = TARGET / f"{name}.json"
            same = path.is_file() and path.read_text(encoding="ascii") == text
            different += not same
            if write:
                path.write_text(text, encoding="ascii")
            print(f"{path.name}: {len(text):,} bytes, {'as before' if same else 'different'}")
    return different


def as_text(value: Any, indent: str = "") -> str:
    """Return JSON with one line for each list of plain values, so that a change can be read."""
    if isinstance(value, dict) and value:
        lines = [f"{indent} {json.dumps(key)}: {as_text(item, indent + ' ')}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
        lines = [f"{indent} {as_text(item, indent + ' ')}" for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main())
