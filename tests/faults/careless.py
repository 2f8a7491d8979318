"""A store that is written to without care, for the search for kill points to find."""

from pathlib import Path

from benchmarks.faults.kill_points import Operation


def prepare(folder: Path) -> None:
    (folder / "run.txt").write_text("old")


def overwrite(folder: Path) -> None:
    """Open the file itself: for a moment it is empty."""
    with (folder / "run.txt").open("w") as stream:
        (folder / "log.txt").write_text("about to be written")
        stream.write("new")


def check(folder: Path, ended: bool) -> None:
    found = (folder / "run.txt").read_text()
    assert found in (("new",) if ended else ("old", "new")), f"found {found!r}"


CARELESS = Operation(prepare, overwrite, check)
