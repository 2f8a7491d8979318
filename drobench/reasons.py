"""Why something failed, as a text that can be stored and printed whatever an exception of somebody else's holds.

Such a text may be megabytes long, hold bytes that no encoding knows, or move the cursor of a terminal; asking for it
may itself fail.
"""

import sys
import traceback

from drobench.harmless import harmless

LONGEST = 4000
"""Characters of a reason that are kept."""


def reason_of(error: BaseException) -> str:
    """Return what kind of exception it is and what it says."""
    try:
        text = str(error)
    except Exception:  # an exception of somebody else's making may fail even at this
        text = "(its text cannot be printed)"
    return tidy(f"{type(error).__name__}: {text}")


def tidy(text: str) -> str:
    """Return a text without what cannot be stored or printed, and not longer than a person would read."""
    shown = harmless(text[:LONGEST])
    if len(text) <= LONGEST and len(shown) <= LONGEST:
        return shown
    end = f" ... (cut, {len(text)} characters)"
    return shown[: LONGEST - len(end)] + end


def print_traceback(error: BaseException) -> None:
    """Print where an exception came from to the standard error, its text no longer than a reason."""
    try:
        lines = list(traceback.TracebackException.from_exception(error).format())
    except Exception:  # see `reason_of`
        lines = [*traceback.format_tb(error.__traceback__), f"{reason_of(error)}\n"]
    sys.stderr.write("".join(tidy(line) for line in lines))
