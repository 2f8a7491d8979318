"""Torch's launcher, made to end with the process that started it, and to say how its ranks ended.

`python -m drobench.app.ranks ENDS.json --nproc-per-node N -m drobench.app.one_run RESOLVED.yaml OPTIMUM.json` is
`torchrun` with the arguments after the first, except that a killed parent leaves neither launcher nor ranks behind, and
that the codes with which ranks have failed are written to ENDS.json. A rank asks here what its launcher told it.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL = 1  # from <sys/prctl.h>
# Ranks in an exchange never see SIGTERM, so they are killed; this is how long the others have to end by themselves.
RANK_GRACE_SECONDS = 3


def end_with_parent(number: signal.Signals) -> None:
    """Ask the kernel to send this process a signal when its parent dies; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number)


def told_by_launcher(name: str, alone: int) -> int:
    """Return `RANK`, `LOCAL_RANK` or `WORLD_SIZE` as torch's launcher has set it, or what a process alone has.

    Launchers further out, such as srun, may set these variables too, but not for our ranks.
    """
    import torch.distributed

    return int(os.environ[name]) if torch.distributed.is_torchelastic_launched() else alone


def _launch(ends: Path, arguments: list[str]) -> None:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    try:
        main(arguments)
    except ChildFailedError as error:
        failures = error.failures.items()
        found = [{"rank": rank, "code": end.exitcode, "time": end.timestamp} for rank, end in failures]
        ends.write_text(json.dumps(found))
        raise


if __name__ == "__main__":
    # On SIGTERM the launcher ends its ranks and then itself.
    end_with_parent(signal.SIGTERM)
    # It would give them 30 seconds. A variable, because older launchers refuse the option and pass over this.
    os.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(RANK_GRACE_SECONDS)
    _launch(Path(sys.argv[1]), sys.argv[2:])
