"""Fit the tables of the synthetic twins to the real data, and write them beside the twins' modules.

python -m benchmarks.fit_twins              all of them
python -m benchmarks.fit_twins --check      write nothing; say whether the files are what the fit gives
"""

import json
import sys
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks import fit_adult_twin, fit_communities_twin, fit_mslr_twin
from benchmarks.real_data import explain_absence, real_folder

FITS = {"adult_twin": fit_adult_twin.fit, "communities_twin": fit_communities_twin.fit, "mslr_twin": fit_mslr_twin.fit}
TARGET = Path(__file__).resolve().parents[1] / "plugins" / "drobench_plugins" / "datasets"


def main(check: bool) -> int:
    """Fit everything; return the exit code."""
    folder = real_folder()
    if folder is None:
        print(explain_absence())
        return 0
    different = 0
    # With one thread sums run in one order, so that every fit gives the same bytes.
    with threadpool_limits(limits=1):
        for name, fit in FITS.items():
            text = as_text(fit(folder)) + "\n"
            path = TARGET / f"{name}.json"
            same = path.is_file() and path.read_text(encoding="ascii") == text
            different += not same
            if not check:
                path.write_text(text, encoding="ascii")
            print(f"{path.name}: {len(text):,} bytes, {'as before' if same else 'different'}")
    return int(check and different > 0)


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
    sys.exit(main(check="--check" in sys.argv[1:]))
