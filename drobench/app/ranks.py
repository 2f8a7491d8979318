"""Torch's launcher, made to end with the process that started it.

`python -m drobench.app.ranks --nproc-per-node N -m drobench.app.one_run RESOLVED.yaml` is `torchrun` with the same
arguments, except that a killed parent leaves neither launcher nor ranks behind.
"""

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1  # from <sys/prctl.h>
# Ranks in an exchange never see SIGTERM, so they are killed; this is how long the others have to end by themselves.
RANK_GRACE_SECONDS = 3


def end_with_parent(number: signal.Signals) -> None:
    """Ask the kernel to send this process a signal when its parent dies; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number)


if __name__ == "__main__":
    # On SIGTERM the launcher ends its ranks and then itself.
    end_with_parent(signal.SIGTERM)
    # It would give them 30 seconds. A variable, because older launchers refuse the option and pass over this.
    os.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(RANK_GRACE_SECONDS)
    from torch.distributed.run import main

    main(sys.argv[1:])
