"""Matplotlib, which only `--picture` needs and drobench itself does not."""

import importlib.util
from typing import Any


def pyplot() -> Any:
    """Return the module that draws into files.

    Raises:
        SystemExit: If it is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("--picture needs matplotlib, which is not installed. Run `pip install matplotlib`.")
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    return plt
