"""Where results are kept unless a command says otherwise."""

import os
from pathlib import Path

from drobench.errors import DrobenchError

_VARIABLE = "DROBENCH_RESULTS"


def default_results() -> Path:
    """Return the folder of results: `DROBENCH_RESULTS`, or `results` in the working directory."""
    return at_home(Path(os.environ.get(_VARIABLE, "results")))


def at_home(folder: Path) -> Path:
    """Return a folder with the home folder in place of a leading ~, for which there may have been no shell.

    Raises:
        DrobenchError: If it is the home of somebody unknown.
    """
    try:
        return folder.expanduser()
    except RuntimeError as error:
        raise DrobenchError(f"The folder {folder} cannot be found: {error}") from error


def set_home_in_environment() -> None:
    """Write the variable out, for those who read it by themselves, such as Hydra."""
    if _VARIABLE in os.environ:
        os.environ[_VARIABLE] = str(default_results())
