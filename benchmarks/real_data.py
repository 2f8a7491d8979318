"""The publishers' files, for fitting the synthetic twins, comparing them with the real data, and reading them fast.

They are looked for by name in one folder and all below it: `--data DIR`, else the folder in `DROBENCH_REAL_DATA`, else
the cache of `drobench data` (`DROBENCH_DATA`, or the user's cache directory).
"""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from drobench.data.cache import cache_root

VARIABLE = "DROBENCH_REAL_DATA"
ADULT = ("adult.data", "adult.test")
COMMUNITIES = "communities.data"
MSLR = {split: f"msn1.fold1.{split}.5k.txt" for split in ("train", "test")}


@dataclass(frozen=True)
class RealData:
    """Where the files of the three real datasets are.

    Attributes:
        adult: Both files of Adult, in the order of the publisher.
        communities: The one file of Communities and Crime.
        mslr: The slices of MSLR-WEB by split, 5,000 documents each.
    """

    adult: tuple[Path, ...]
    communities: Path
    mslr: dict[str, Path]


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Let a program be told where the files are."""
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help=f"where the real data are; else {VARIABLE}, else the cache"
    )


def folder_to_search(chosen: Path | None = None) -> Path:
    """Return the folder that is searched, which need not exist."""
    named = os.environ.get(VARIABLE)
    return chosen or (Path(named).expanduser() if named else cache_root())


def find_file(name: str, chosen: Path | None = None) -> Path | None:
    """Return the file of this name, or `None` if it is nowhere in the folder."""
    return min(folder_to_search(chosen).rglob(name), default=None)


def find_real_data(chosen: Path | None = None) -> RealData | None:
    """Return all files, or `None` if one is absent."""
    found = {name: find_file(name, chosen) for name in (*ADULT, COMMUNITIES, *MSLR.values())}
    there = {name: path for name, path in found.items() if path is not None}
    if len(there) < len(found):
        return None
    slices = {split: there[name] for split, name in MSLR.items()}
    return RealData(tuple(there[name] for name in ADULT), there[COMMUNITIES], slices)


def explain_absence(chosen: Path | None = None) -> str:
    """Return what is not there and what to do about it."""
    absent = [name for name in (*ADULT, COMMUNITIES, *MSLR.values()) if find_file(name, chosen) is None]
    return (
        f"The real data are needed; {', '.join(absent)} not found in {folder_to_search(chosen)} and below. Run "
        "`drobench data fetch adult` and `drobench data fetch communities_crime`, put the two slices of MSLR-WEB "
        "(rankeval/test/data in the source archive of rankeval 0.8.2 on PyPI) into the same folder, or name another "
        f"with --data DIR or {VARIABLE}. The twins themselves need no file."
    )
