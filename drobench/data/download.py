"""Files that have to be fetched before a dataset can be used, and the cache they are kept in.

The cache is one folder per dataset below `cache_root()`. A file is used only if its SHA-256 is the one its dataset
states, wherever it came from: a server, an archive on a server, or a folder on this machine. Files are built under
another name and moved into place whole, so that a reader never sees half of one, and a cache that holds everything may
be read-only.
"""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from drobench.errors import DrobenchError

CACHE_VARIABLE = "DROBENCH_DATA"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BLOCK = 1 << 20
# No archive that holds a file of ours comes near this; a server that sends more is not the one we mean.
_LARGEST_ARCHIVE = 1 << 30
# Answers that asking again does not change: the request is refused, or there is no such file.
_FINAL = (400, 401, 403, 404, 405, 410, 451)
# How many file names of a kind a message lists.
_LISTED = 5

Progress = Callable[[str, int, int | None], None]
"""Called with the name of a file, the bytes there are of it, and the bytes there will be, if known."""


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


@dataclass(frozen=True)
class Patience:
    """How long to try.

    Attributes:
        connect: Seconds to wait for a connection.
        read: Seconds to wait for the next bytes.
        retries: How often an address is tried again after a failure.
    """

    connect: float = 10.0
    read: float = 30.0
    retries: int = 3


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


def file_sha256(path: Path) -> str:
    """Checksum of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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


def fetch(
    dataset: str,
    files: Sequence[RemoteFile],
    source: Path | None = None,
    *,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> list[Path]:
    """Bring the files of a dataset into the cache and return their paths there.

    Files that are there already, verified, are left alone.

    Args:
        dataset: The dataset's name in the catalogue.
        files: What it needs.
        source: A folder, or a zip archive, to take the files from; nothing is downloaded then.
        progress: Told how far a download is.
        patience: Limits of time and retries.

    Raises:
        DownloadError: A file cannot be had, or is not the one that is meant.
    """
    folder = cache_folder(dataset)

    def absent() -> list[RemoteFile]:
        return [file for file in files if file_state(folder / file.name, file) is not State.VERIFIED]

    if absent():
        with writing(folder):
            # Asked again: another process may have fetched them while this one waited for its turn.
            for file in absent():
                if source is not None:
                    _take_local(file, source, folder)
                else:
                    _download(dataset, file, folder, progress, patience or Patience())
    return [folder / file.name for file in files]


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


# From this machine


def _take_local(file: RemoteFile, source: Path, folder: Path) -> None:
    """Copy a file out of a folder or archive, the first whose content is right."""
    if not source.exists():
        raise DownloadError(f"There is no folder or archive {source.resolve()} to take {file.name} from.")
    wrong: list[str] = []
    archives: list[Path] = []
    for path in _files_below(source):
        if path.name == file.name:
            found = _take_file(path, file, folder)
            if found is None:
                return
            wrong.append(found)
        elif path.suffix.lower() == ".zip":
            archives.append(path)
    for path in archives:
        found = _take_from_archive(path, file, folder)
        if found is None:
            return
        wrong.append(found)
    _refuse_local(file, source, [text for text in wrong if text])


def _take_file(path: Path, file: RemoteFile, folder: Path) -> str | None:
    """Place a copy of a file; `None` if done, otherwise what is wrong."""
    try:
        stream = path.open("rb")
    except OSError as error:
        return str(error)
    with stream:
        try:
            _place(stream, file, folder)
        except DownloadError as error:
            return str(error)
    return None


def _refuse_local(file: RemoteFile, source: Path, wrong: list[str]) -> None:
    wanted = f"{file.name} of {file.size} bytes with SHA-256 {file.sha256}"
    if wrong:
        found = "; ".join(wrong[:_LISTED])
        raise DownloadError(f"{source} must hold {wanted}; found: {found}. Take the file as its publisher offers it.")
    raise DownloadError(f"{source} must hold {wanted}; found no file of that name in it. Check the folder.")


def _files_below(source: Path) -> Iterator[Path]:
    """Every regular file in a folder, in a fixed order; or the file itself."""
    if source.is_file():
        yield source
        return
    for parent, folders, names in os.walk(source):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file():
                yield path


def _take_from_archive(path: Path, file: RemoteFile, folder: Path) -> str | None:
    """Place the member of the right name; `None` if done, otherwise what is wrong, empty if it is not in there."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [item for item in archive.infolist() if PurePosixPath(item.filename).name == file.name]
            wrong = ""
            for member in members:
                try:
                    with open_member(archive, member, file.size) as stream:
                        _place(stream, file, folder)
                except DownloadError as error:
                    wrong = str(error)
                else:
                    return None
            return wrong
    except ARCHIVE_ERRORS as error:
        return f"{path} is no readable zip archive ({error})"


ARCHIVE_ERRORS = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error)
"""What `zipfile` raises for archives that are damaged, encrypted or packed in a way it does not know."""


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, largest: int) -> IO[bytes]:
    """Open a file in an archive for reading, without ever unpacking to the path it claims.

    Raises:
        DownloadError: The member claims a place outside the archive, or is larger than it may be.
    """
    place = PurePosixPath(member.filename.replace("\\", "/"))
    where = f"{archive.filename}: {member.filename!r}"
    if place.is_absolute() or ".." in place.parts or re.match(r"[A-Za-z]:", member.filename):
        raise DownloadError(f"{where} leads out of the archive. Do not use this archive.")
    if member.file_size > largest:
        raise DownloadError(f"{where} must have at most {largest} bytes; it states {member.file_size}.")
    return archive.open(member)


def _place(stream: IO[bytes], file: RemoteFile, folder: Path) -> None:
    """Copy a stream into the cache under the file's name, if the content is right."""
    with _temporary(folder) as built:
        with built.open("wb") as target:
            # One byte more than expected is enough to know that it is too long.
            left = file.size + 1
            while left and (block := stream.read(min(_BLOCK, left))):
                target.write(block)
                left -= len(block)
            target.flush()
            os.fsync(target.fileno())
        if file_state(built, file) is not State.VERIFIED:
            raise DownloadError(
                f"{getattr(stream, 'name', file.name)} must have {file.size} bytes and SHA-256 {file.sha256}; found "
                f"{'more' if not left else file.size + 1 - left} bytes and SHA-256 {file_sha256(built)}"
            )
        built.replace(folder / file.name)


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """A name beside the target, which nothing is left of in the end."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".building-")
    os.close(descriptor)
    built = Path(name)
    try:
        yield built
    finally:
        built.unlink(missing_ok=True)


# From a server


def _download(dataset: str, file: RemoteFile, folder: Path, progress: Progress | None, patience: Patience) -> None:
    """Try the addresses of a file in turn."""
    if not file.urls:
        raise DownloadError(
            f"{file.name} of dataset {dataset!r} cannot be downloaded: no address is known. Get it from its publisher "
            f"and run `drobench data fetch {dataset} --from DIR`."
        )
    troubles = []
    for url in file.urls:
        try:
            if urlsplit(url).path.endswith(".zip"):
                _download_archive(url, file, folder, progress, patience)
            else:
                _download_file(url, file, folder, progress, patience)
        except DownloadError as error:
            troubles.append(str(error))
        else:
            return
    listed = "\n".join(f"  {trouble}" for trouble in troubles)
    raise DownloadError(
        f"{file.name} of dataset {dataset!r} could not be downloaded:\n{listed}\nCheck the connection and try again (a "
        f"partial download is continued), or get the file another way and run `drobench data fetch {dataset} "
        "--from DIR`."
    )


def _download_file(url: str, file: RemoteFile, folder: Path, progress: Progress | None, patience: Patience) -> None:
    _pooch_fetch(url, file.name, file.sha256, folder, _Resuming(file.name, file.size, folder, progress, patience))


def _download_archive(url: str, file: RemoteFile, folder: Path, progress: Progress | None, patience: Patience) -> None:
    """Download an archive, whose own checksum nobody states, and take the file out of it, whose checksum is known."""
    # Named by its address: two datasets' archives, or two versions, are not to be taken for each other.
    name = f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.zip"
    archive = folder / name
    try:
        _pooch_fetch(url, name, None, folder, _Resuming(name, None, folder, progress, patience))
        wrong = _take_from_archive(archive, file, folder)
        if wrong is not None:
            raise DownloadError(f"{url}: {wrong or f'no {file.name} in the archive'}")
    finally:
        archive.unlink(missing_ok=True)


def _pooch_fetch(url: str, name: str, sha256: str | None, folder: Path, downloader: "_Resuming") -> None:
    """Let pooch download, check and place one file, and turn its errors into ours."""
    # Imported here: half a second for `requests` that only a download needs.
    import pooch  # noqa: PLC0415
    import requests  # noqa: PLC0415

    # Its messages would stand between the lines of the progress bar; ours say the same.
    pooch.get_logger().setLevel("ERROR")
    keeper = pooch.create(
        path=folder,
        base_url="",
        registry={name: None if sha256 is None else f"sha256:{sha256}"},
        urls={name: url},
        retry_if_failed=downloader.patience.retries,
    )
    # A file without a known checksum would be taken as it is: only a new one is wanted.
    if sha256 is None:
        (folder / name).unlink(missing_ok=True)
    try:
        keeper.fetch(name, downloader=downloader)
    except requests.RequestException as error:
        raise DownloadError(f"{url}: {_in_words(error)}") from error
    except ValueError as error:
        # pooch says so when the checksum differs.
        expected = f"SHA-256 {sha256}" if sha256 is not None else "a readable file"
        raise DownloadError(f"{url}: expected {expected}; found other content ({error})") from error


def _in_words(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text if len(text) <= 300 else text[:300] + "..."


class _Resuming:
    """A pooch downloader that goes on where an earlier attempt stopped.

    What has arrived is kept beside the target as `NAME.part`. A server that cannot continue sends the file from its
    beginning, which is then used. A wrong continuation is found out by the checksum, and starts anew.
    """

    def __init__(
        self, name: str, size: int | None, folder: Path, progress: Progress | None, patience: Patience
    ) -> None:
        self.name = name
        self.size = size
        self.part = folder / f"{name}.part"
        self.progress = progress
        self.patience = patience

    def __call__(self, url: str, output_file: str, _pooch: Any, check_only: bool = False) -> bool | None:
        """Download `url` to `output_file`."""
        import requests  # noqa: PLC0415

        del check_only
        have = self.part.stat().st_size if self.part.is_file() else 0
        if self.size is not None and have >= self.size:
            # Nothing to ask for, and never seen by the checksum: better begin again.
            self.part.unlink()
            have = 0
        # Compressed on the way, byte positions would be those of another file.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        limits = (self.patience.connect, self.patience.read)
        with requests.get(url, headers=headers, stream=True, timeout=limits) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink(missing_ok=True)
                raise requests.RequestException(f"the server cannot continue {self.name} at byte {have}")
            if response.status_code in _FINAL:
                raise DownloadError(f"{url}: the server says {response.status_code} {response.reason}")
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                have = 0
            self._receive(response, have)
        shutil.move(self.part, output_file)
        return None

    def _receive(self, response: Any, have: int) -> None:
        """Append what arrives to the partial file."""
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else self.size
        most = self.size if self.size is not None else _LARGEST_ARCHIVE
        with self.part.open("ab" if have else "wb") as target:
            for block in response.iter_content(_BLOCK // 8):
                have += len(block)
                if have > most:
                    break
                target.write(block)
                if self.progress is not None:
                    self.progress(self.name, have, total)
        if have > most:
            self.part.unlink()
            raise DownloadError(f"{response.url}: {self.name} must have at most {most} bytes; the server sends more")
        if self.size is not None and have < self.size and total is not None and have == total:
            # The server ended in good order, so continuing would bring nothing.
            self.part.unlink()
            raise DownloadError(f"{response.url}: {self.name} must have {self.size} bytes; the server has {have}")
