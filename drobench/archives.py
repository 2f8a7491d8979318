"""Zip archives that others made: what may be in them, and how much is read of them.

Nothing is ever unpacked to the path that an archive names. A name that leads out of the archive is refused all the
same, as are links, devices, encrypted files, names that occur twice, and more bytes or files than expected: an archive
that has one of them is not the one that was meant.
"""

import ntpath
import zipfile
import zlib
from typing import IO

from drobench.errors import DrobenchError

ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    zlib.error,
)
"""What `zipfile` raises for archives that are damaged, encrypted or packed in a way it does not know."""

MOST_FILES = 400_000
_CHUNK = 1 << 20
# The kind of a file in the upper bits of its attributes: not said, or a regular file.
_PLAIN_KINDS = (0, 0o10)
_ENCRYPTED = 1


class UnsafeArchive(DrobenchError):
    """An archive that holds what no archive of data holds."""


def members(archive: zipfile.ZipFile, most: int = MOST_FILES) -> list[zipfile.ZipInfo]:
    """Return the list of an archive's files, which are not looked into.

    Raises:
        UnsafeArchive: There are too many, or two of the same name.
    """
    found = archive.infolist()
    if len(found) > most:
        raise UnsafeArchive(f"{archive.filename} has {len(found)} files; more than {most} are not read.")
    seen = set()
    for member in found:
        if member.filename in seen:
            raise UnsafeArchive(f"{archive.filename} holds {member.filename[:200]!r} twice.")
        seen.add(member.filename)
    return found


def leads_out(name: str) -> bool:
    """Whether a name, on any system, may be that of a file outside of the folder it is unpacked to."""
    # The rules of Windows contain the others: both slashes separate, and a drive or a root make a path absolute.
    drive, path = ntpath.splitdrive(name)
    steps = path.replace("\\", "/").split("/")
    return bool(drive) or (len(steps) > 1 and steps[0] == "") or ".." in steps


def check_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Raise unless this is a plain file at a place within the archive.

    Raises:
        UnsafeArchive: It is not.
    """
    if leads_out(member.filename):
        raise UnsafeArchive(f"{_place(archive, member)} leads out of the archive. Do not use this archive.")
    if member.external_attr >> 28 not in _PLAIN_KINDS or member.flag_bits & _ENCRYPTED:
        raise UnsafeArchive(f"{_place(archive, member)} must be a plain file; found a link, a device or a secret.")


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, largest: int) -> IO[bytes]:
    """Open a file in an archive for reading; no more comes out of it than the archive says of its size.

    Raises:
        UnsafeArchive: It is no plain file, claims a place outside the archive, or is larger than it may be.
    """
    check_member(archive, member)
    if member.file_size > largest:
        raise UnsafeArchive(
            f"{_place(archive, member)} must have at most {largest} bytes; it states {member.file_size}."
        )
    return archive.open(member)


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, largest: int) -> bytes:
    """Return the content of a file, counted as it comes: what the archive says of its size is not believed.

    Raises:
        UnsafeArchive: It is no plain file, claims a place outside the archive, or is larger than it may be.
    """
    check_member(archive, member)
    parts, size = [], 0
    with archive.open(member) as source:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > largest:
                raise UnsafeArchive(f"{_place(archive, member)} has more than the {largest} bytes that are read of it.")
            parts.append(chunk)
    return b"".join(parts)


def _place(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    name = member.filename[:200]
    return f"{archive.filename}: {name if name.isprintable() else repr(name)}"
