"""Finding the training, validation and test text of a fold, in a folder or in a zip archive.

A file belongs to a split by a word in its name (`train.txt`, `msn1.fold1.test.5k.txt`) and to a fold by `Fold1` or the
like in its path. Files of one folder and one fold belong together.
"""

import contextlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from drobench.archives import ARCHIVE_ERRORS, UnsafeArchive, members
from drobench.data.cache import DownloadError
from drobench.data.dataset import DataError
from drobench.data.local_files import open_member

_SPLITS = {"train": "train", "vali": "validation", "valid": "validation", "validation": "validation", "test": "test"}
_SPLIT_WORD = re.compile(rf"(?<![a-z])({'|'.join(_SPLITS)})(?![a-z])", re.IGNORECASE)
_FOLD_WORD = re.compile(r"(?<![a-z])fold[ _-]?(\d+)", re.IGNORECASE)
# The largest text of MSLR-WEB30K has about 2.5 GB.
_LARGEST_TEXT = 1 << 34


@dataclass(frozen=True)
class SourceText:
    """A text, in a file of its own or in an archive.

    Attributes:
        path: The file, or the archive.
        member: The place in the archive, or `None`.
    """

    path: Path
    member: str | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.path) if self.member is None else f"{self.path}:{self.member}"

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the text for reading."""
        if self.member is None:
            with self.path.open("rb") as plain:
                yield plain
            return
        try:
            archive = zipfile.ZipFile(self.path)
        except ARCHIVE_ERRORS as error:
            raise _unreadable(self.name, error) from error
        with archive:
            try:
                stream = open_member(archive, archive.getinfo(self.member), _LARGEST_TEXT)
            except ARCHIVE_ERRORS as error:
                raise _unreadable(self.name, error) from error
            # While it is read, only what unpacking raises: an error of whoever reads is none of the archive.
            try:
                yield stream
            except (zipfile.BadZipFile, EOFError, zlib.error) as error:
                raise _unreadable(self.name, error) from error
            finally:
                stream.close()


Fold = dict[str, SourceText]
"""Texts by split: `train`, and perhaps `validation` and `test`."""


def find_folds(source: Path) -> dict[int, Fold]:
    """Return every fold below a folder or in an archive, by number; what has no number is fold 1.

    Raises:
        DataError: There is none, or two that could be meant.
    """
    if not source.exists():
        raise DataError(f"Dataset 'mslr': there is no folder or archive {source.resolve()}. Check the path.")
    families: dict[tuple[str, int | None], Fold] = {}
    for place, text in _texts(source):
        split = _SPLIT_WORD.search(place.name)
        if split is None:
            continue
        numbers = _FOLD_WORD.findall(str(place))
        family = families.setdefault((str(place.parent), int(numbers[-1]) if numbers else None), {})
        role = _SPLITS[split.group(1).lower()]
        if role in family:
            raise DataError(
                f"Dataset 'mslr': one {role} text is needed; found {family[role].name} and {text.name}. Name a folder "
                "with one of them."
            )
        family[role] = text
    folds: dict[int, Fold] = {}
    for (_, number), family in sorted(families.items(), key=str):
        if "train" not in family:
            continue
        fold = 1 if number is None else number
        if fold in folds:
            raise DataError(
                f"Dataset 'mslr': one fold {fold} is needed; found {folds[fold]['train'].name} and "
                f"{family['train'].name}. Name a folder with one of them."
            )
        folds[fold] = family
    if not folds:
        raise DataError(
            f"Dataset 'mslr': a training text, such as Fold1/train.txt, is needed; found none in {source}. Name the "
            "folder that MSLR-WEB10K or MSLR-WEB30K was unpacked to, or the archive itself."
        )
    return folds


def _texts(source: Path) -> Iterator[tuple[PurePosixPath, SourceText]]:
    """Every text file with its place below the source."""
    if source.is_dir():
        for path in sorted(source.rglob("*.txt")):
            if path.is_file():
                yield PurePosixPath(path.relative_to(source).as_posix()), SourceText(path)
        return
    if source.suffix.lower() != ".zip":
        # A single file is what somebody wants to train on, whatever its name.
        yield PurePosixPath("train.txt"), SourceText(source)
        return
    try:
        with zipfile.ZipFile(source) as archive:
            names = sorted(member.filename for member in members(archive))
    except UnsafeArchive as error:
        raise DownloadError(str(error)) from error
    except ARCHIVE_ERRORS as error:
        raise _unreadable(str(source), error) from error
    for name in names:
        if name.lower().endswith(".txt"):
            yield PurePosixPath(name), SourceText(source, name)


def _unreadable(name: str, error: Exception) -> DownloadError:
    return DownloadError(f"{name} must be a sound zip archive; found: {error}. Get the archive again.")
