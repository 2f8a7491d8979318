"""Whether an error is that of a disk: full, or no longer to be written to. It is no failure of what was computed."""

import errno

from drobench.reasons import reason_of
from drobench.results.store import StoreUnusable

_CODES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def of_the_disk(error: BaseException) -> bool:
    """Tell whether an error, or one that it was made of, comes from a disk that takes nothing more."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, StoreUnusable) or (isinstance(found, OSError) and found.errno in _CODES):
            return True
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return False


def disk_error(error: BaseException) -> StoreUnusable:
    """Return what to tell the person whose disk it is."""
    return disk_trouble(reason_of(error))


def disk_trouble(reason: str) -> StoreUnusable:
    """Return what to tell, where only the text of the error is known."""
    return StoreUnusable(
        f"The run could not go on, since nothing can be written any more ({reason}). Nothing was recorded for it. Make "
        "room, or choose another folder of results; the same command then goes on from here."
    )
