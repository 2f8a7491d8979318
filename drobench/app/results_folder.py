"""Where results are kept unless a command says otherwise."""

import os
from pathlib import Path


def default_results() -> Path:
    """Return the folder of results: `DROBENCH_RESULTS`, or `results` in the working directory."""
    return Path(os.environ.get("DROBENCH_RESULTS", "results"))
