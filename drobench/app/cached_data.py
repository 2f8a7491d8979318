"""What the cache holds of a dataset, and where its data come from, in the words of `drobench data`."""

from urllib.parse import urlsplit

from drobench.data.cache import State, state
from drobench.registry import DatasetEntry

NOT_NEEDED = "-"
_BY_HAND = "its publisher, by hand"


def held_of(entry: DatasetEntry, *, thorough: bool) -> State | None:
    """Return what the cache holds of a dataset; `None` if there is nothing to hold."""
    if entry.intake is not None:
        return entry.intake.state(thorough)
    return state(entry.name, entry.files) if entry.files else None


def origin_of(entry: DatasetEntry) -> str:
    """Return where the data come from."""
    if entry.intake is not None:
        return _BY_HAND
    hosts = {urlsplit(url).hostname or url: None for file in entry.files for url in file.urls}
    if hosts:
        return ", ".join(hosts)
    return _BY_HAND if entry.files else "nothing to fetch"


def is_cached(held: State | None) -> str:
    """Say whether data are in the cache."""
    if held is None:
        return NOT_NEEDED
    return "no" if held is State.ABSENT else "yes"


def verdict_on(entry: DatasetEntry, held: State | None) -> str:
    """Say whether what the cache holds is sound, as far as a listing has looked."""
    if held is None or held is State.ABSENT:
        return NOT_NEEDED
    if held is State.DAMAGED:
        return "DAMAGED"
    # Large data are not read for a listing.
    return "sizes only" if entry.intake is not None else "yes"
