"""The seal of a stored run: checksums that show whether its files are still what was written.

The record holds the checksums of the other files, and in its last own field the checksum of its text, in which that
field stands as zeros. A seal shows damage, not fraud: whoever changes a file on purpose can seal it again.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from drobench.results.fields import DamagedRecord
from drobench.results.record import Record

_BLANK = "0" * 64
# Only a field of the record itself stands two blanks from the margin, and no text in JSON contains a line break.
_SEAL = re.compile(r'^  "checksum": "([0-9a-f]{64})"', re.MULTILINE)


def sealed(record: Record, files: Mapping[str, str]) -> str:
    """Return the text of a record's file, with the checksums of the other files and of itself."""
    text = replace(record, files=dict(files), checksum=_BLANK).to_json()
    return _SEAL.sub(lambda found: found[0].replace(_BLANK, _checksum(text)), text, count=1)


def check_seal(text: str, file: Path) -> None:
    """Raise unless the text of a record is what `sealed` returned, or that of a version that did not seal.

    Raises:
        DamagedRecord: It was changed.
    """
    found = _SEAL.search(text)
    if found is None:
        return
    expected = _checksum(text[: found.start(1)] + _BLANK + text[found.end(1) :])
    if found[1] != expected:
        raise DamagedRecord(file, "checksum", f"{expected}, that of the text", found[1])


def check_sealed(record: Record, text: str, file: Path) -> None:
    """Raise where a record of a version that seals has no seal in its text.

    Raises:
        DamagedRecord: It was taken away, or the text was laid out anew.
    """
    if (record.asked is not None or record.checksum is not None) and _SEAL.search(text) is None:
        raise DamagedRecord(file, "checksum", "the checksum of the text, as it was written", "another layout, or none")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
