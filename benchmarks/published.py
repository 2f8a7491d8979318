"""The published leaderboard, made again from the committed records: `python -m benchmarks.published`.

`docs/leaderboard/results.zip` is the bundle of `drobench sweep showcase` (105 runs). From it come `leaderboard.md`,
`report.html` and the pictures beside it. Nothing is computed here but the comparison; `drobench verify
docs/leaderboard/results.zip` computes the metrics again.
"""

import argparse
import tempfile
from pathlib import Path

from drobench.app.report_file import write_report
from drobench.results.bundle import unpack
from drobench.results.comparison.board import Leaderboard
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.curves import StoredCurves
from drobench.results.record import Record
from drobench.results.report.content import gather
from drobench.results.report.formats import format_markdown
from drobench.results.report.plots import write_plots
from drobench.results.store import ResultStore

PLACE = Path(__file__).parents[1] / "docs" / "leaderboard"
BUNDLE = PLACE / "results.zip"
PICTURES = {
    "performance_profiles.png": "performance_profiles.png",
    "kl_classification-on-synthetic_relative_gap_by_passes.png": "convergence.png",
}
_HEADING = """# A leaderboard

Three solvers on five robust problems, seven seeds each: what `drobench sweep showcase` found, packed as
[results.zip](results.zip). This page, [report.html](report.html) (download it and open it in a browser) and the
pictures are made from that file by `python -m benchmarks.published`; `drobench verify docs/leaderboard/results.zip`
recomputes every metric from the stored solutions. `unconstrained` minimises the plain risk and is scored, as all are,
on the robust one.

![performance profiles](performance_profiles.png)

"""


def compare(bundle: Path, folder: Path) -> tuple[ResultStore, list[Record], Leaderboard]:
    """Return the runs of a bundle, taken apart into `folder`, and their comparison."""
    unpack(bundle, folder)
    store = ResultStore(folder)
    records = store.records().records
    return store, records, leaderboard(records, StoredCurves(store))


def page(found: Leaderboard) -> str:
    """Return the leaderboard as a page."""
    return _HEADING + format_markdown(found)


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=PLACE)
    output = parser.parse_args().output
    with tempfile.TemporaryDirectory(prefix="drobench-published-") as name:
        folder, drawn = Path(name) / "results", Path(name) / "pictures"
        folder.mkdir()
        store, records, found = compare(BUNDLE, folder)
        output.mkdir(parents=True, exist_ok=True)
        (output / "leaderboard.md").write_text(page(found), encoding="utf-8")
        write_report(store, records, found, output / "report.html")
        written = {file.name: file for file in write_plots(gather(found, records, store.curve), drawn, ["png"])}
        for drawing, kept in PICTURES.items():
            matching = next(file for file_name, file in written.items() if file_name.startswith(drawing[:-4]))
            (output / kept).write_bytes(matching.read_bytes())
    print(f"{output}: leaderboard.md, report.html, {', '.join(PICTURES.values())} from {len(records)} runs")


if __name__ == "__main__":
    main()
