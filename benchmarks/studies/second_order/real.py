"""The real tables for the runs of this study, from the cache or from the publishers' files."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.assembled import known_catalogue
from benchmarks.real_data import folder_to_search
from benchmarks.studies.second_order.instances import REAL
from drobench.data.cache import CACHE_VARIABLE, DownloadError, State, state
from drobench.data.local_files import take_local


@contextmanager
def real_tables(chosen: Path | None) -> Iterator[str | None]:
    """Let runs find the real tables for a while; give the reason why they cannot, or `None` if they can.

    A folder that is named is what counts, and its files are copied into a cache that is gone in the end: that of the
    user is left as it is.
    """
    datasets = known_catalogue().datasets
    files = {name: datasets[name].entry.files for name in REAL}
    if all(state(name, needed) is State.VERIFIED for name, needed in files.items()):
        yield None
        return
    before = os.environ.get(CACHE_VARIABLE)
    with tempfile.TemporaryDirectory() as cache:
        try:
            for name, needed in files.items():
                (Path(cache) / name).mkdir()
                for file in needed:
                    take_local(file, folder_to_search(chosen), Path(cache) / name)
        except DownloadError as error:
            yield str(error)
            return
        os.environ[CACHE_VARIABLE] = cache
        try:
            yield None
        finally:
            if before is None:
                del os.environ[CACHE_VARIABLE]
            else:
                os.environ[CACHE_VARIABLE] = before
