"""Where the files lie that come with the code: `conf/` and `sweeps/`."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """Return `conf/` or `sweeps/`: inside the package when installed from a wheel, beside it in a checkout."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
