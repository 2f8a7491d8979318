"""Where the publishers' files are, for fitting the synthetic twins and for comparing them with the real data."""

import os
from pathlib import Path

VARIABLE = "DROBENCH_REAL_DATA"
FOLDERS = ("adult", "communities", "mslr_web_slice")


def real_folder() -> Path | None:
    """Return the folder with the real data, or `None` if it is not there."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get(VARIABLE) or beside)
    return folder if all((folder / name).is_dir() for name in FOLDERS) else None


def explain_absence() -> str:
    """Return what to do when `real_folder` found nothing."""
    return (
        f"The real data are needed: a folder with {', '.join(FOLDERS)}. Set {VARIABLE} to it. "
        "The twins themselves need no file."
    )
