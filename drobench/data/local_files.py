"""Taking the files of a dataset from this machine: out of a folder, or out of an archive."""

import hashlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from drobench import archives
from drobench.archives import ARCHIVE_ERRORS, UnsafeArchive, members
from drobench.data.cache import DownloadError, RemoteFile
from drobench.files import whole_file

_BLOCK = 1 << 20
# How many troubles a message lists.
_LISTED = 5


def take_local(file: RemoteFile, source: Path, folder: Path) -> None:
    """Copy a file out of a folder or archive, the first whose content is right.

    Args:
        file: What is wanted.
        source: A folder, which is searched with all below it, or a file.
        folder: Where the copy goes.

    Raises:
        DownloadError: There is none; the message says what was found instead.
    """
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
        found = take_from_archive(path, file, folder)
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


def take_from_archive(path: Path, file: RemoteFile, folder: Path) -> str | None:
    """Place the member of the right name; `None` if done, otherwise what is wrong, empty if it is not in there."""
    try:
        with zipfile.ZipFile(path) as archive:
            wrong = ""
            for member in members(archive):
                if PurePosixPath(member.filename).name != file.name:
                    continue
                try:
                    with open_member(archive, member, file.size) as stream:
                        _place(stream, file, folder)
                except DownloadError as error:
                    wrong = str(error)
                else:
                    return None
            return wrong
    except UnsafeArchive as error:
        return str(error)
    except ARCHIVE_ERRORS as error:
        return f"{path} is no readable zip archive ({error})"


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, largest: int) -> IO[bytes]:
    """Open a file in an archive for reading, without ever unpacking to the path it claims.

    Raises:
        DownloadError: The member is no plain file, claims a place outside the archive, or is larger than it may be.
    """
    try:
        return archives.open_member(archive, member, largest)
    except UnsafeArchive as error:
        raise DownloadError(str(error)) from error


def _place(stream: IO[bytes], file: RemoteFile, folder: Path) -> None:
    """Copy a stream into the cache under the file's name, if the content is right."""
    digest = hashlib.sha256()
    with whole_file(folder / file.name) as target:
        # One byte more than expected is enough to know that it is too long.
        left = file.size + 1
        while left and (block := stream.read(min(_BLOCK, left))):
            digest.update(block)
            target.write(block)
            left -= len(block)
        if left != 1 or digest.hexdigest() != file.sha256:
            raise DownloadError(
                f"{getattr(stream, 'name', file.name)} must have {file.size} bytes and SHA-256 {file.sha256}; found "
                f"{'more' if not left else file.size + 1 - left} bytes and SHA-256 {digest.hexdigest()}"
            )
