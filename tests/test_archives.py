"""Archives that others made: whatever they hold, nothing leads out, and no more is read than is allowed."""

import ntpath
import posixpath
import stat
import warnings
import zipfile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drobench.archives import UnsafeArchive, check_member, leads_out, members, open_member, read_member

PARTS = st.sampled_from(["..", ".", "", "a", "b.txt", "...", "..a", "C:", "c:x", " ", "~"])
SEPARATORS = st.sampled_from(["/", "\\", "//", "\\\\"])
NAMES = st.lists(st.one_of(PARTS, SEPARATORS, st.text("./\\:ab~ \n", max_size=3)), min_size=1, max_size=8).map("".join)
CHECKED = settings(derandomize=True, deadline=None, max_examples=100)


def archive_of(path, *names, content=b"content", attributes=0o644 << 16):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        warnings.filterwarnings("ignore", "Duplicate name")
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = attributes
            target.writestr(entry, content)
    return zipfile.ZipFile(path)


def leaves(system, folder: str, name: str) -> bool:
    """Whether a file of this name is outside of the folder, by the rules of a system."""
    place = system.normpath(system.join(folder, name))
    return place != folder and not place.startswith(folder + system.sep)


@CHECKED
@given(NAMES)
@example("../x")
@example("a/../../x")
@example("..\\x")
@example("C:/x")
@example("C:x")
@example("::")
@example("\\\\server\\share\\x")
def test_a_name_that_leaves_the_folder_on_any_system_is_refused(name):
    if leaves(posixpath, "/data/folder", name) or leaves(ntpath, "D:\\data\\folder", name):
        assert leads_out(name)


@CHECKED
@given(st.lists(st.text("aZ09_-+ äß", min_size=1), min_size=1, max_size=4))
def test_ordinary_names_are_accepted(words):
    assert not leads_out("/".join(words) + ".txt")


def test_a_file_that_leads_out_is_neither_opened_nor_read(tmp_path):
    with archive_of(tmp_path / "a.zip", "in", "../out") as archive:
        inside, outside = members(archive)
        assert read_member(archive, inside, 7) == b"content"
        for reading in (open_member, read_member):
            with pytest.raises(UnsafeArchive, match=r"a\.zip: \.\./out leads out of the archive"):
                reading(archive, outside, 7)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFDIR, stat.S_IFIFO])
def test_only_plain_files_are_accepted(tmp_path, kind):
    archive = archive_of(tmp_path / "a.zip", "x", attributes=(kind | 0o777) << 16)
    with archive, pytest.raises(UnsafeArchive, match="must be a plain file"):
        check_member(archive, members(archive)[0])


def test_an_encrypted_file_is_refused(tmp_path):
    with archive_of(tmp_path / "a.zip", "x") as archive:
        (member,) = members(archive)
        member.flag_bits |= 1
        with pytest.raises(UnsafeArchive, match="a secret"):
            open_member(archive, member, 7)


def test_names_that_occur_twice_and_too_many_are_refused(tmp_path):
    with archive_of(tmp_path / "a.zip", "x", "y", "x") as archive:
        with pytest.raises(UnsafeArchive, match="holds 'x' twice"):
            members(archive)
        with pytest.raises(UnsafeArchive, match="has 3 files; more than 2 are not read"):
            members(archive, most=2)


def test_a_file_may_have_as_many_bytes_as_are_allowed_and_no_more(tmp_path):
    with archive_of(tmp_path / "a.zip", "x", content=b"0" * 3_000_000) as archive:
        (member,) = members(archive)
        with open_member(archive, member, 3_000_000) as stream:
            assert len(stream.read()) == len(read_member(archive, member, 3_000_000)) == 3_000_000
        with pytest.raises(UnsafeArchive, match="must have at most 2999999 bytes; it states 3000000"):
            open_member(archive, member, 2_999_999)
        with pytest.raises(UnsafeArchive, match="x has more than the 2999999 bytes"):
            read_member(archive, member, 2_999_999)


def test_a_message_shows_a_name_that_cannot_be_printed_in_a_way_that_can(tmp_path):
    with archive_of(tmp_path / "a.zip", "../\n\x1b[2J") as archive, pytest.raises(UnsafeArchive) as caught:
        check_member(archive, members(archive)[0])
    assert str(caught.value).isprintable()
