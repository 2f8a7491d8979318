"""How a rank ends."""

import atexit
import os
import sys
from typing import NoReturn

import torch.distributed


def leave(code: int = 0) -> NoReturn:
    """End this process, which has done all it was to do, with an exit code.

    The interpreter is not left to end by itself: what gloo leaves of its threads, also after the group is destroyed,
    aborts one process in ten or so on a busy machine, after all is done, and the launcher then ends the others.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
