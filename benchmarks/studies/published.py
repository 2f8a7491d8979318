"""The published leaderboard, docs/leaderboard/, made again from the committed records.

    python -m benchmarks.studies.published
    python -m benchmarks.studies.published --small       one of the problems, and nothing in docs/ is touched

`docs/leaderboard/results.zip` is the bundle of `drobench sweep showcase` (105 runs). From it come `leaderboard.md`,
`report.html` and the pictures beside it. Nothing is computed here but the comparison; `drobench verify
docs/leaderboard/results.zip` computes the metrics again.
"""

import argparse
import tempfile
from pathlib import Path

from drobench import leaderboard
from drobench.app.report_file import write_report
from drobench.results.bundle import unpack
from drobench.results.comparison.board import Leaderboard
from drobench.results.comparison.filters import Filter
from drobench.results.record import Record
from drobench.results.report.content import gather
from drobench.results.report.formats import format_markdown
from drobench.results.report.plots import write_plots
from drobench.results.store import ResultStore

PLACE = Path(__file__).parents[2] / "docs" / "leaderboard"
BUNDLE = PLACE / "results.zip"
SMALL = Filter(problem=["kl_classification"])
PICTURES = {
    "performance_profiles.png": "performance_profiles.png",
    "kl_classification-on-synthetic_relative_gap_by_passes.png": "convergence.png",
}
_HEADING = """# A leaderboard

Three solvers on five robust problems, seven seeds each: what `drobench sweep showcase` found, packed as
[results.zip](results.zip). This page, [report.html](report.html) (download it and open it in a browser) and the
pictures are made from that file by `python -m benchmarks.studies.published`; `drobench verify
docs/leaderboard/results.zip` recomputes every metric from the stored solutions. `unconstrained` minimises the plain
risk and is scored, as all are, on the robust one.

![performance profiles](performance_profiles.png)

"""


def compare(bundle: Path, folder: Path, only: Filter | None = None) -> tuple[ResultStore, list[Record], Leaderboard]:
    """Return the runs of a bundle, taken apart into `folder`, and their comparison; `only` says which take part."""
    unpack(bundle, folder)
    store = ResultStore(folder)
    records = store.records().records
    return store, records if only is None else only.apply(records), leaderboard(folder, only=only)


def page(found: Leaderboard) -> str:
    """Return the leaderboard as a page."""
    return _HEADING + format_markdown(found)


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help=f"the folder to write to, {PLACE.parent.name}/{PLACE.name}")
    parser.add_argument("--small", action="store_true", help="one of the problems, into a folder that is deleted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drobench-published-") as name:
        folder, drawn = Path(name) / "results", Path(name) / "pictures"
        folder.mkdir()
        output = options.output or (Path(name) / "page" if options.small else PLACE)
        store, records, found = compare(BUNDLE, folder, SMALL if options.small else None)
        output.mkdir(parents=True, exist_ok=True)
        (output / "leaderboard.md").write_text(page(found), encoding="utf-8")
        content = gather(found, records, store.curve)
        write_report(content, output / "report.html")
        written = {file.name: file for file in write_plots(content, drawn, ["png"])}
        for drawing, kept in PICTURES.items():
            matching = next(file for file_name, file in written.items() if file_name.startswith(drawing[:-4]))
            (output / kept).write_bytes(matching.read_bytes())
    print(f"{output}: leaderboard.md, report.html, {', '.join(PICTURES.values())} from {len(records)} runs")


if __name__ == "__main__":
    main()
