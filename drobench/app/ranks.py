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
STARTED_BY = "DROBENCH_STARTED_BY"
"""The variable in which launcher and ranks are told who has started them."""


def end_with_parent(number: signal.Signals, parent: int | None) -> None:
    """Ask the kernel to send this process a signal when its parent dies, which only Linux can.

    Args:
        number: The signal.
        parent: The process that started this one: it may be gone by now, and then this one ends here. None: unknown.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number)
    if parent is not None and os.getppid() != parent:
        sys.exit(1)


def started_by() -> int | None:
    """Return the process that has started this launcher or rank, once; none if that was done by hand."""
    parent = os.environ.pop(STARTED_BY, None)
    return None if parent is None else int(parent)


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
    end_with_parent(signal.SIGTERM, started_by())
    os.environ[STARTED_BY] = str(os.getpid())
    # It would give them 30 seconds. A variable, because older launchers refuse the option and pass over this.
    os.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(RANK_GRACE_SECONDS)
    _launch(Path(sys.argv[1]), sys.argv[2:])
