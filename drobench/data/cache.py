"""Files that are not ours to ship, and the cache they are kept in.

The cache is one folder per dataset below `cache_root()`. A file is used only if its SHA-256 is the one its dataset
states, wherever it came from: a server, an archive on a server, or a folder on this machine. Files are built under
another name and moved into place whole, so that a reader never sees half of one, and a cache that holds everything may
be read-only.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from drobench.errors import DrobenchError
from drobench.files import file_sha256

CACHE_VARIABLE = "DROBENCH_DATA"
_SHA256 = re.compile(r"[0-9a-f]{64}")


class DownloadError(DrobenchError):
    """Data are not there, are damaged, or cannot be fetched."""


class State(StrEnum):
    """What the cache holds of a file or a dataset, worst first."""

    ABSENT = "absent"
    DAMAGED = "damaged"
    VERIFIED = "verified"


@dataclass(frozen=True)
class RemoteFile:
    """A file that is not ours to ship.

    Attributes:
        name: What it is called at its source and in the cache.
        sha256: Checksum of its content, 64 lower-case hexadecimal digits.
        size: Its length in bytes.
        urls: Where it can be had, best first. An address that ends in `.zip` is an archive with the file inside.
    """

    name: str
    sha256: str
    size: int
    urls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what could not be checked, or would lead out of the cache.

        Raises:
            DownloadError: A field is impossible.
        """
        if not self.name or self.name in (".", "..") or re.search(r"[/\\\0]", self.name):
            raise DownloadError(f"RemoteFile.name must be a file name without folders; found {self.name!r}.")
        if _SHA256.fullmatch(self.sha256) is None:
            raise DownloadError(
                f"RemoteFile {self.name!r}: sha256 must be 64 lower-case hexadecimal digits; found {self.sha256!r}."
            )
        if self.size < 0:
            raise DownloadError(f"RemoteFile {self.name!r}: size must be a number of bytes; found {self.size}.")


def cache_root() -> Path:
    """The folder all data are kept in: `DROBENCH_DATA`, or a folder in the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    # Imported here: only whoever has not chosen a folder needs it.
    import platformdirs  # noqa: PLC0415

    return Path(platformdirs.user_cache_dir("drobench", appauthor=False))


def cache_folder(dataset: str) -> Path:
    """Where the files of one dataset are kept."""
    return cache_root() / dataset


def file_state(path: Path, file: RemoteFile) -> State:
    """Whether a file is there, and is the one that is meant."""
    if not path.is_file():
        return State.ABSENT
    same = path.stat().st_size == file.size and file_sha256(path) == file.sha256
    return State.VERIFIED if same else State.DAMAGED


def state(dataset: str, files: Sequence[RemoteFile]) -> State:
    """Whether the cache holds all files of a dataset, unharmed."""
    found = [file_state(cache_folder(dataset) / file.name, file) for file in files]
    return min(found, key=list(State).index, default=State.VERIFIED)


def require(dataset: str, files: Sequence[RemoteFile], twin: str | None = None) -> list[Path]:
    """Return the paths of a dataset's files in the cache, each verified.

    Args:
        dataset: The dataset's name in the catalogue.
        files: What it needs.
        twin: The name of its synthetic stand-in, to be named in the message.

    Raises:
        DownloadError: A file is absent or damaged; the message says how to get it.
    """
    folder = cache_folder(dataset)
    for file in files:
        found = file_state(folder / file.name, file)
        if found is State.ABSENT:
            raise missing(dataset, " and ".join(item.name for item in files), twin)
        if found is State.DAMAGED:
            raise DownloadError(
                f"dataset={dataset}: {folder / file.name} must have the SHA-256 {file.sha256}; found "
                f"{file_sha256(folder / file.name)}. Replace it: run `drobench data fetch {dataset}`."
            )
    return [folder / file.name for file in files]


def missing(dataset: str, needs: str, twin: str | None = None, *, downloadable: bool = True) -> DownloadError:
    """Return the error for data that are not in the cache, with every way out."""
    fetch = f"`drobench data fetch {dataset} --from DIR`"
    if downloadable:
        fetch = f"`drobench data fetch {dataset}` or {fetch}"
    instead = f", or use dataset={twin}" if twin is not None else ""
    return DownloadError(
        f"dataset={dataset} needs {needs}, not found in {cache_folder(dataset)}: run {fetch}{instead}."
    )


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold a folder of the cache for writing; two processes that fetch the same data take turns.

    Raises:
        DownloadError: The folder cannot be written.
    """
    from filelock import FileLock  # noqa: PLC0415

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            yield
    except OSError as error:
        raise DownloadError(
            f"The cache {folder} cannot be written: {error}. Free space or change its permissions, or choose another "
            f"folder with {CACHE_VARIABLE}=DIR."
        ) from error
