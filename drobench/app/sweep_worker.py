"""The process that computes one cell of a sweep.

This module is preloaded by the fork server, hence the heavy import that nothing below uses: it is the six seconds that
every worker would otherwise spend. The server itself never computes.
"""

import os
import signal
import sys

import drobench.training.trainer  # noqa: F401  # preloads Lightning for the workers
from drobench.app.cell import run_cell
from drobench.app.config import from_yaml, register
from drobench.registry import load_catalogue


def work(config_text: str, log: str) -> None:
    """Compute the cell with this configuration; everything it prints goes to `log`."""
    # Ctrl-C in the terminal is for the sweep, which then ends its workers; they must not each react to it too.
    os.setpgrp()
    # An orderly end, so that a worker with several ranks ends them first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, sys.stdout.fileno())
    os.dup2(descriptor, sys.stderr.fileno())
    catalogue = load_catalogue()
    register(catalogue)
    run_cell(from_yaml(config_text, catalogue), catalogue, keep_refusals=True)
