"""How whoever waits for a long task on files is told how far it is."""

from collections.abc import Callable

OnProgress = Callable[[str, int, int | None], None]
"""Called with the name of a file, how much of it is done and how much there is, if known: bytes, or rows."""
