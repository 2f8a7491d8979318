"""Texts of learning-to-rank data: what they say is read exactly, and what is wrong is named with its line."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letor_samples import LINE, same, table, text, write

from drobench.data.dataset import DataError
from drobench_plugins.datasets import letor_text
from drobench_plugins.datasets.letor_text import FEATURES, LetorTable, joined, parse_letor, read_blocks


@pytest.mark.parametrize(("end", "sparse"), [(" \r\n", False), ("\n", True)])
def test_texts_are_read_exactly_whatever_their_line_ends(end, sparse, tmp_path):
    content = table([3, 1, 5])
    assert same(parse_letor(write(tmp_path / "a.txt", text(content, end, sparse))), content)


def test_the_last_line_may_lack_its_end(tmp_path):
    content = table([4])
    assert same(parse_letor(write(tmp_path / "a.txt", text(content).rstrip())), content)


def test_blank_lines_and_remarks_are_passed_over(tmp_path):
    content = table([4])
    lines = text(content, "\n").splitlines()
    assert same(parse_letor(write(tmp_path / "a.txt", "\n" + "\n\n".join(lines) + "\n\n")), content)
    assert same(parse_letor(write(tmp_path / "b.txt", "".join(f"{line} #docid = G1\n" for line in lines))), content)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_text_is_read_in_blocks_of_any_size(sparse, tmp_path, monkeypatch):
    content = table([7, 5])
    path = write(tmp_path / "a.txt", text(content, sparse=sparse))
    for block in (700, 5000, 40_000):
        monkeypatch.setattr(letor_text, "_BLOCK", block)
        assert same(parse_letor(path), content)


def test_both_ways_of_reading_agree_and_the_complete_one_is_used(tmp_path, monkeypatch):
    content = table([40])
    path = write(tmp_path / "a.txt", content)
    slow = letor_text._read_slowly(path.read_bytes(), "a", 1, True)
    monkeypatch.setattr(letor_text, "_read_slowly", None)
    assert same(parse_letor(path), slow)


def shortened(line: str) -> str:
    return line.rsplit(" ", 1)[0] + "\n"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (LINE + shortened(LINE), "line 2: all 136 features are needed, as in the first line; found 135"),
        (LINE + LINE + LINE[:100].rsplit(":", 1)[0], "line 3"),
        (LINE + LINE.replace(" 7:", " 8:", 1), "each feature at most once"),
        (LINE + LINE.replace(" 7:", " 137:", 1), "a feature from 1 to 136"),
        (LINE + LINE.replace(" 7:", " x:", 1), "found 'x:"),
        (LINE + LINE.replace("qid:1", "qid:one"), "`qid:` and a whole number; found 'qid:one'"),
        (LINE + LINE.replace("qid:1 ", ""), "exactly one `qid:NUMBER` is needed; found 0"),
        (LINE + LINE.replace("qid:1", "qid:1 qid:2"), "found 2"),
        (LINE + "-1" + LINE[1:], "a relevance, a whole number from 0; found '-1'"),
        (LINE + "1.5" + LINE[1:], "a relevance, a whole number from 0; found '1.5'"),
        (LINE + "relevant" + LINE[1:], "line 2: expected a relevance"),
        (LINE + "0 qid:1 1:nan" + LINE[LINE.index(" 2:") :], "a finite value; found '1:nan'"),
        (LINE + "0 qid:1 1:1e999" + LINE[LINE.index(" 2:") :], "a finite value; found '1:1e999'"),
        (LINE + "0 qid:1 1:" + LINE[LINE.index(" 2:") :], "found '1:'"),
        ("0 qid:1 1:3 2:\n", "line 1"),
        ("0,1,2,3\n", "line 1"),
        ("", "at least one document"),
        (" \r\n\n", "at least one document"),
    ],
)
def test_a_line_in_another_format_is_named(content, found, tmp_path):
    path = write(tmp_path / "a.txt", content)
    with pytest.raises(DataError) as caught:
        parse_letor(path)
    assert found in str(caught.value)
    assert str(path) in str(caught.value)


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_text, "_BLOCK", 3000)
    path = write(tmp_path / "a.txt", "\n" + LINE * 9 + shortened(LINE))
    with pytest.raises(DataError, match="line 11:"):
        parse_letor(path)


@pytest.mark.parametrize("content", [b"\x00\xff" * 50, b"\x1f\x8b\x08" + bytes(100)])
def test_a_binary_file_is_refused(content, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match="line 1"):
        parse_letor(tmp_path / "a.txt")


def test_a_file_without_line_ends_is_given_up_early(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_text, "_BLOCK", 1000)
    monkeypatch.setattr(letor_text, "_LONGEST_LINE", 5000)
    (tmp_path / "a.txt").write_bytes(b"1" * 50_000)
    with pytest.raises(DataError, match="a line of more than 5000 bytes"):
        parse_letor(tmp_path / "a.txt")


# Against a plain parser


VALUES = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-1e6, 1e6, allow_subnormal=False).map(repr),
    st.sampled_from(["0", "-0", "1e-5", "0.0000001", "123456.789", "1E+3"]),
)
ENDS = st.sampled_from(["\n", "\r\n", " \n", " \r\n"])


@st.composite
def documents(draw, complete):
    """A line with all features in order, or with some in any order, and perhaps a remark."""
    if complete:
        names = range(1, FEATURES + 1)
        # A few values repeated: 136 draws a line would say no more.
        some = draw(st.lists(VALUES, min_size=1, max_size=5))
        values = [some[name % len(some)] for name in names]
        remark = ""
    else:
        names = draw(st.lists(st.integers(1, FEATURES), unique=True, max_size=6))
        values = [draw(VALUES) for _ in names]
        remark = draw(st.sampled_from(["", " # docid = 7", " #"]))
    pairs = [f"{name}:{value}" for name, value in zip(names, values, strict=True)]
    words = [str(draw(st.integers(0, 4))), f"qid:{draw(st.integers(0, 10**9))}", *pairs]
    return " ".join(words) + remark + draw(ENDS)


def read_plainly(lines: list[str]) -> LetorTable:
    """The format once more, a word at a time."""
    features = np.zeros((len(lines), FEATURES))
    relevance, queries = [], []
    for row, line in enumerate(lines):
        grade, query, *pairs = line.partition("#")[0].split()
        relevance.append(int(grade))
        queries.append(int(query.removeprefix("qid:")))
        for pair in pairs:
            name, _, value = pair.partition(":")
            features[row, int(name) - 1] = float(value)
    return LetorTable(features, np.array(relevance), np.array(queries))


@pytest.mark.parametrize("complete", [True, False])
def test_any_text_is_read_as_a_plain_parser_reads_it(complete):
    @settings(derandomize=True, deadline=None, max_examples=15)
    @given(st.lists(documents(complete), min_size=1, max_size=5), st.sampled_from([40, 700, 10**6]))
    def check(lines, block):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(letor_text, "_BLOCK", block)
            found = joined(list(read_blocks(io.BytesIO("".join(lines).encode()), "a text")))
        assert same(found, read_plainly(lines))

    check()
