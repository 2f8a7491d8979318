"""Reading the text files of learning-to-rank data: SVMlight lines with a query number.

    2 qid:1 1:3 2:3 3:0 ... 136:0

A file is read in blocks of whole lines, so that memory stays bounded. If its first line has all features in order,
every line must, which makes a truncated line an error and lets a whole block be read as one table of numbers: that is
the fast path. Any other SVMlight file goes the slow path, token by token; a feature that is not named there is zero.
The slow path is also where a block goes that the fast one cannot read, since it can say which line is at fault.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import DataError

if TYPE_CHECKING:
    import polars as pl

FEATURES = 136
_BLOCK = 1 << 25
# A line of 136 features has about 1,200 bytes. What is far longer has lost its line ends, or is another kind of file.
_LONGEST_LINE = 1 << 20
_SPACES = bytes.maketrans(b":", b" ")


class Readable(Protocol):
    """A stream of bytes, as far as a reader of blocks needs one."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""
        ...


@dataclass(frozen=True, eq=False)
class LetorTable:
    """Documents in the order of the file.

    Attributes:
        features: One row per document, `(n, 136)`.
        relevance: Graded relevance, whole numbers from 0, `(n,)`.
        queries: The query number in the file, `(n,)`.
    """

    features: NDArray[np.float64]
    relevance: NDArray[np.int64]
    queries: NDArray[np.int64]


def parse_letor(path: Path) -> LetorTable:
    """Read a whole file into memory.

    Raises:
        DataError: The file is not in the format; the message names the line.
    """
    with path.open("rb") as stream:
        return joined(list(read_blocks(stream, str(path))))


def joined(tables: list[LetorTable]) -> LetorTable:
    """Put tables one below the other."""
    if len(tables) == 1:
        return tables[0]
    return LetorTable(
        np.concatenate([table.features for table in tables]),
        np.concatenate([table.relevance for table in tables]),
        np.concatenate([table.queries for table in tables]),
    )


def read_blocks(stream: Readable, name: str) -> Iterator[LetorTable]:
    """Read a stream block by block.

    Args:
        stream: The text, as bytes.
        name: What messages call it.

    Raises:
        DataError: The text is not in the format; the message names the line.
    """
    line = 1
    complete: bool | None = None
    for block in _whole_lines(stream, name):
        if not block.strip():
            line += block.count(b"\n")
            continue
        if complete is None:
            complete = _is_complete(block.lstrip())
        table = _read_fast(block) if complete else None
        yield table if table is not None else _read_slowly(block, name, line, complete)
        line += block.count(b"\n")
    if complete is None:
        raise DataError(f"Dataset 'mslr': {name} must hold at least one document; found none. Check the file.")


def _whole_lines(stream: Readable, name: str) -> Iterator[bytes]:
    """Blocks that end at the end of a line."""
    rest = b""
    while block := stream.read(_BLOCK):
        end = block.rfind(b"\n") + 1
        if not end and len(rest) > _LONGEST_LINE:
            raise DataError(
                f"Dataset 'mslr': {name} must be text with a document a line; found a line of more than "
                f"{_LONGEST_LINE} bytes. Check the file."
            )
        yield rest + block[:end] if end else b""
        rest = block[end:] if end else rest + block
    yield rest


def _is_complete(text: bytes) -> bool:
    """Whether the first line has the query number and all features, in order."""
    words = text[:_LONGEST_LINE].split(b"\n", 1)[0].split()
    names = [word.partition(b":")[0] for word in words[1:]]
    return names == [b"qid", *(b"%d" % number for number in range(1, FEATURES + 1))]


def _read_fast(block: bytes) -> LetorTable | None:
    """Read a block of complete lines as one table of numbers; `None` if it is not one."""
    import polars as pl  # noqa: PLC0415
    from polars.exceptions import PolarsError  # noqa: PLC0415

    # With spaces for colons every line is: relevance, `qid`, query, 1, value, 2, value, ..., and perhaps a space.
    schema: dict[str, pl.DataType | type[pl.DataType]] = {"relevance": pl.Int64, "qid": pl.String, "query": pl.Int64}
    for number in range(1, FEATURES + 1):
        schema |= {f"name{number}": pl.Int64, f"value{number}": pl.Float64}
    try:
        table = pl.read_csv(
            block.translate(_SPACES, b"\r"),
            separator=" ",
            has_header=False,
            quote_char=None,
            schema=schema | {"end": pl.String},
        )
    except PolarsError:
        return None
    numbers = table.select(pl.all().exclude("end"))
    if sum(numbers.null_count().row(0)) or table["end"].null_count() != table.height or (table["qid"] != "qid").any():
        return None
    names = numbers.select([(pl.col(f"name{number}") == number).all() for number in range(1, FEATURES + 1)])
    features = numbers.select([f"value{number}" for number in range(1, FEATURES + 1)]).to_numpy()
    relevance = table["relevance"].to_numpy()
    if not all(names.row(0)) or not np.isfinite(features).all() or (relevance < 0).any():
        return None
    return LetorTable(np.ascontiguousarray(features), relevance, table["query"].to_numpy())


def _read_slowly(block: bytes, name: str, first_line: int, complete: bool) -> LetorTable:
    """Read a block of any SVMlight lines, and say what is wrong where something is."""
    import polars as pl  # noqa: PLC0415

    try:
        text = block.decode("ascii")
    except UnicodeDecodeError as error:
        line = first_line + block[: error.start].count(b"\n")
        raise DataError(f"Dataset 'mslr': {name}, line {line}: the file must be plain text; found {error}.") from error
    lines = (
        pl.DataFrame({"text": [part.partition("#")[0].strip() for part in io.StringIO(text)]})
        .with_row_index("line", offset=first_line)
        .filter(pl.col("text") != "")
        .with_row_index("row")
    )
    words = lines.with_columns(pl.col("text").str.split(" ")).explode("text").filter(pl.col("text") != "")
    begins = words["row"] != words["row"].shift(1)
    begins = begins.fill_null(value=True)
    heads, pairs = words.filter(begins), words.filter(~begins)
    relevance = _checked(heads, heads["text"].cast(pl.Int64, strict=False), name, "a relevance, a whole number from 0")
    if (relevance < 0).any():
        bad = heads.filter(relevance < 0)
        raise _wrong(bad, name, "a relevance, a whole number from 0")
    pairs = pairs.with_columns(pl.col("text").str.split_exact(":", 1).alias("parts")).unnest("parts")
    pairs = pairs.rename({"field_0": "key", "field_1": "value"})
    asked, valued = pairs.filter(pl.col("key") == "qid"), pairs.filter(pl.col("key") != "qid")
    queries = _one_query_each(lines, asked, name)
    features = _scattered(lines.height, valued, name)
    if complete:
        _check_complete(lines, valued, name)
    return LetorTable(features, relevance.to_numpy(), queries)


def _one_query_each(lines: "pl.DataFrame", asked: "pl.DataFrame", name: str) -> NDArray[np.int64]:
    import polars as pl  # noqa: PLC0415

    counts = np.bincount(asked["row"].to_numpy(), minlength=lines.height)
    bad = lines.filter(pl.Series(counts != 1))
    if not bad.is_empty():
        raise DataError(
            f"Dataset 'mslr': {name}, line {bad['line'][0]}: exactly one `qid:NUMBER` is needed; found "
            f"{counts[counts != 1][0]} in {_shortened(bad['text'][0])!r}."
        )
    return _checked(asked, asked["value"].cast(pl.Int64, strict=False), name, "`qid:` and a whole number").to_numpy()


def _scattered(rows: int, valued: "pl.DataFrame", name: str) -> NDArray[np.float64]:
    """The named values in a matrix of zeros."""
    import polars as pl  # noqa: PLC0415

    expected = f"`FEATURE:VALUE` with a feature from 1 to {FEATURES} and a finite value"
    keys = _checked(valued, valued["key"].cast(pl.Int64, strict=False), name, expected)
    values = _checked(valued, valued["value"].cast(pl.Float64, strict=False), name, expected)
    bad = valued.filter(~keys.is_between(1, FEATURES) | ~values.is_finite())
    if not bad.is_empty():
        raise _wrong(bad, name, expected)
    places = valued["row"].to_numpy().astype(np.int64) * FEATURES + keys.to_numpy() - 1
    unique, first = np.unique(places, return_index=True)
    if len(unique) < len(places):
        second = np.setdiff1d(np.arange(len(places)), first)[0]
        raise _wrong(valued[int(second) : int(second) + 1], name, "each feature at most once")
    features = np.zeros(rows * FEATURES)
    features[places] = values.to_numpy()
    return features.reshape(rows, FEATURES)


def _check_complete(lines: "pl.DataFrame", valued: "pl.DataFrame", name: str) -> None:
    import polars as pl  # noqa: PLC0415

    counts = np.bincount(valued["row"].to_numpy(), minlength=lines.height)
    short = lines.filter(pl.Series(counts < FEATURES))
    if not short.is_empty():
        raise DataError(
            f"Dataset 'mslr': {name}, line {short['line'][0]}: all {FEATURES} features are needed, as in the first "
            f"line; found {counts[counts < FEATURES][0]}. The file is cut short or damaged: get it again."
        )


def _checked(words: "pl.DataFrame", values: "pl.Series", name: str, expected: str) -> "pl.Series":
    """Return the values, if none is null."""
    bad = words.filter(values.is_null())
    if not bad.is_empty():
        raise _wrong(bad, name, expected)
    return values


def _wrong(bad: "pl.DataFrame", name: str, expected: str) -> DataError:
    return DataError(
        f"Dataset 'mslr': {name}, line {bad['line'][0]}: expected {expected}; found {_shortened(bad['text'][0])!r}. "
        "Check the file."
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "..."
