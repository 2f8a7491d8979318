"""A file to be fetched, archives that hold it, and what became of the attempt."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from drobench.data.cache import DownloadError, RemoteFile
from drobench.data.download import Patience, fetch

CONTENT = np.random.default_rng(3).bytes(300_000)
ONCE = Patience(connect=2, read=2, retries=0)


def described(content: bytes = CONTENT, name: str = "some.data", urls: tuple[str, ...] = ()) -> RemoteFile:
    return RemoteFile(name, hashlib.sha256(content).hexdigest(), len(content), urls)


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("some.data", ".lock"))


def refused(*arguments, **settings) -> str:
    """Return the message of a fetch that fails."""
    with pytest.raises(DownloadError) as caught:
        fetch(*arguments, **{"patience": ONCE, **settings})
    return str(caught.value)
