"""Fetching the files of a dataset from servers, with retries, or from this machine.

What has arrived of a file is kept beside its place as `NAME.part`, and the next attempt, or the next call, goes on
where the last one stopped. A server that cannot continue sends the file from its beginning, which is then used. A wrong
continuation is found out by the checksum, and starts anew.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from drobench.data.cache import DownloadError, RemoteFile, State, cache_folder, file_state, writing
from drobench.data.local_files import take_from_archive, take_local
from drobench.data.progress import OnProgress
from drobench.files import file_sha256, sync
from drobench.moved import moved

__all__ = ["DownloadError", "Patience", "RemoteFile", "State", "cache_folder", "fetch", "file_state", "writing"]

_BLOCK = 1 << 17
# No archive that holds a file of ours comes near this; a server that sends more is not the one we mean.
_LARGEST_ARCHIVE = 1 << 30
# Answers that asking again does not change: the request is refused, or there is no such file.
_FINAL = (400, 401, 403, 404, 405, 410, 451)
# Seconds before the third attempt; the second comes at once, and from then on the pause doubles.
_PAUSE = 1.0
_LONGEST_MESSAGE = 300


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


def fetch(
    dataset: str,
    files: Sequence[RemoteFile],
    source: Path | None = None,
    *,
    progress: OnProgress | None = None,
    patience: Patience | None = None,
) -> list[Path]:
    """Bring the files of a dataset into the cache and return their paths there.

    Files that are there already, verified, are left alone.

    Args:
        dataset: The dataset's name in the catalogue.
        files: What it needs.
        source: A folder, or a zip archive, to take the files from; nothing is downloaded then.
        progress: Told how far a download is, in bytes.
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
                    take_local(file, source, folder)
                else:
                    _download(dataset, file, folder, progress, patience or Patience())
    return [folder / file.name for file in files]


def _download(dataset: str, file: RemoteFile, folder: Path, progress: OnProgress | None, patience: Patience) -> None:
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


def _download_file(url: str, file: RemoteFile, folder: Path, progress: OnProgress | None, patience: Patience) -> None:
    transfer = _Transfer(url, file.name, folder, progress, patience, size=file.size, sha256=file.sha256)
    transfer.run()
    transfer.part.replace(folder / file.name)


def _download_archive(
    url: str, file: RemoteFile, folder: Path, progress: OnProgress | None, patience: Patience
) -> None:
    """Download an archive, whose own checksum nobody states, and take the file out of it, whose checksum is known."""
    # Named by its address: two datasets' archives, or two versions, are not to be taken for each other.
    name = f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.zip"
    transfer = _Transfer(url, name, folder, progress, patience)
    transfer.run()
    try:
        wrong = take_from_archive(transfer.part, file, folder)
    finally:
        transfer.part.unlink()
    if wrong is not None:
        raise DownloadError(f"{url}: {wrong or f'no {file.name} in the archive'}")


class _OtherContentError(Exception):
    """All bytes have arrived, and they are not those of the file."""


@dataclass(frozen=True)
class _Transfer:
    """One file from one address.

    Attributes:
        url: The address.
        name: What messages and the partial file call it.
        folder: Where the partial file is.
        progress: Told how far it is.
        patience: Limits of time and retries.
        size: How many bytes it must have, if known.
        sha256: The checksum it must have, if known.
    """

    url: str
    name: str
    folder: Path
    progress: OnProgress | None
    patience: Patience
    size: int | None = None
    sha256: str | None = None

    @property
    def part(self) -> Path:
        """What has arrived; when `run` has returned, all of it, verified and on the disk."""
        return self.folder / f"{self.name}.part"

    def run(self) -> None:
        """Try until all is there.

        Raises:
            DownloadError: It cannot be had from this address.
        """
        # Imported here: half a second that only a download needs.
        import requests  # noqa: PLC0415
        from urllib3.exceptions import MaxRetryError  # noqa: PLC0415
        from urllib3.util import Retry  # noqa: PLC0415

        # One count for all that can go wrong: no connection, a busy server, a broken transfer, other content.
        attempts = Retry(total=self.patience.retries, backoff_factor=_PAUSE)
        while True:
            try:
                self._attempt()
            except (requests.RequestException, _OtherContentError) as error:
                try:
                    attempts = attempts.increment("GET", self.url, error=error)
                except MaxRetryError:
                    raise DownloadError(f"{self.url}: {_in_words(error)}") from error
                attempts.sleep()
            else:
                return

    def _attempt(self) -> None:
        """Ask for what is missing."""
        import requests  # noqa: PLC0415

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
        with requests.get(self.url, headers=headers, stream=True, timeout=limits) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink(missing_ok=True)
                raise requests.RequestException(f"the server cannot continue {self.name} at byte {have}")
            if response.status_code in _FINAL:
                raise DownloadError(f"{self.url}: the server says {response.status_code} {response.reason}")
            response.raise_for_status()
            self._receive(response, have if response.status_code == requests.codes.partial_content else 0)
        self._verify()

    def _receive(self, response: Any, have: int) -> None:
        """Append what arrives to the partial file."""
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else self.size
        most = self.size if self.size is not None else _LARGEST_ARCHIVE
        with self.part.open("ab" if have else "wb") as target:
            for block in response.iter_content(_BLOCK):
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

    def _verify(self) -> None:
        if self.sha256 is not None and (found := file_sha256(self.part)) != self.sha256:
            self.part.unlink()
            raise _OtherContentError(f"expected SHA-256 {self.sha256}; found other content (SHA-256 {found})")
        sync(self.part)


def _in_words(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."


__getattr__ = moved(
    __name__,
    {
        "Progress": "drobench.data.progress.OnProgress",
        "CACHE_VARIABLE": "drobench.data.cache",
        "cache_root": "drobench.data.cache",
        "state": "drobench.data.cache",
        "require": "drobench.data.cache",
        "missing": "drobench.data.cache",
        "open_member": "drobench.data.local_files",
        "ARCHIVE_ERRORS": "drobench.archives",
    },
)
