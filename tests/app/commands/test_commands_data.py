"""`drobench data`: the list, fetching, verifying, exit codes and messages."""

import dataclasses
import hashlib
import os
from pathlib import Path

import pytest

from drobench.app.cli import main
from drobench.data.cache import RemoteFile, State
from drobench.data.dataset import DatasetConfig
from drobench.registry import DatasetEntry, Registered, load_catalogue
from drobench.registry.entries import EntryError, Intake

REAL = Path(os.environ.get("DROBENCH_REAL_DATA") or Path(__file__).parents[4] / "shared" / "data")
CONTENT = b"1,2,3\n"
FILE = RemoteFile("guest.csv", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), ("http://127.0.0.1:9/guest.csv",))


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    folder = tmp_path / "cache"
    monkeypatch.setenv("DROBENCH_DATA", str(folder))
    return folder


def dataset(name: str, **fields) -> DatasetEntry:
    return DatasetEntry(name=name, summary="A guest.", config=DatasetConfig, factory=lambda _config: None, **fields)


class Cupboard:
    """Data that are taken over by hand."""

    def __init__(self) -> None:
        self.held = State.ABSENT

    def take(self, source: Path) -> list[str]:
        self.held = State.VERIFIED
        return [f"took {source.name}"]

    def state(self, thorough: bool) -> State:
        return State.DAMAGED if self.held is State.VERIFIED and thorough else self.held


@pytest.fixture
def cupboard(monkeypatch):
    """A catalogue with a file to download, a thing to be taken over, and embedded data."""
    found = Cupboard()
    entries = (
        dataset("guest", files=(FILE,), licence="CC0", reference="A. Guest (2020)"),
        dataset("manual", intake=Intake("ask the publisher at example.org", found.take, found.state)),
        dataset("embedded"),
    )
    catalogue = load_catalogue()
    guests = {
        entry.name: Registered(entry=entry, plugin="guests", distribution="guests", version="1") for entry in entries
    }
    changed = dataclasses.replace(catalogue, datasets=guests)
    monkeypatch.setattr("drobench.registry.load_catalogue", lambda: changed)
    return found


@pytest.fixture
def command(capsys):
    """The command line as a function: code, output, messages."""

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["data", *map(str, words)])
        output = capsys.readouterr()
        return int(caught.value.code or 0), output.out, output.err

    return run


def line(output: str, name: str) -> str:
    (found,) = [text for text in output.splitlines() if text.split()[:1] == [name]]
    return found


def test_the_list_says_where_data_come_from_and_whether_they_are_there(command, cupboard, tmp_path):
    code, output, _ = command()
    assert code == 0
    assert line(output, "guest").split() == ["guest", "127.0.0.1", "CC0", "A.", "Guest", "(2020)", "no", "-"]
    assert "its publisher, by hand" in line(output, "manual")
    assert "nothing to fetch" in line(output, "embedded")
    assert f"cache: {tmp_path / 'cache'}" in output
    (tmp_path / "guest.csv").write_bytes(CONTENT)
    assert command("fetch", "guest", "--from", tmp_path)[0] == 0
    assert command("fetch", "manual", "--from", tmp_path)[0] == 0
    output = command()[1]
    assert line(output, "guest").split()[-2:] == ["yes", "yes"]
    assert line(output, "manual").split()[-3:] == ["yes", "sizes", "only"]


def test_the_list_shows_damage(command, cupboard, cache):
    (cache / "guest").mkdir(parents=True)
    (cache / "guest" / "guest.csv").write_bytes(b"other")
    assert line(command()[1], "guest").split()[-1] == "DAMAGED"


def test_the_installed_datasets_are_listed(command):
    code, output, _ = command()
    assert code == 0
    for name in ("adult", "communities_crime", "mslr", "breast_cancer"):
        assert line(output, name)
    assert "CC BY 4.0" in line(output, "adult")


def test_local_files_are_fetched_and_named(command, cupboard, tmp_path, cache):
    (tmp_path / "guest.csv").write_bytes(CONTENT)
    code, output, _ = command("fetch", "guest", "--from", tmp_path)
    assert code == 0
    assert f"verified  {cache / 'guest' / 'guest.csv'}" in output


def test_wrong_local_files_are_refused_with_code_2(command, cupboard, tmp_path):
    (tmp_path / "guest.csv").write_bytes(b"other")
    code, _, message = command("fetch", "guest", "--from", tmp_path)
    assert code == 2
    assert FILE.sha256 in message


def test_a_download_that_fails_is_told_with_code_2(command, cupboard, monkeypatch):
    monkeypatch.setattr("drobench.data.download._PAUSE", 0.0)
    code, _, message = command("fetch", "guest")
    assert code == 2
    assert "http://127.0.0.1:9/guest.csv" in message
    assert "drobench data fetch guest --from DIR" in message


def test_data_that_cannot_be_downloaded_say_where_to_get_them(command, cupboard):
    code, _, message = command("fetch", "manual")
    assert code == 2
    assert "ask the publisher at example.org" in message
    assert "drobench data fetch manual --from DIR" in message


def test_data_that_are_taken_over_are_told(command, cupboard, tmp_path):
    code, output, _ = command("fetch", "manual", "--from", tmp_path)
    assert code == 0
    assert f"took {tmp_path.name}" in output


def test_embedded_data_need_nothing(command, cupboard):
    assert command("fetch", "embedded")[:2] == (0, "embedded needs nothing to be fetched.\n")


def test_an_unknown_name_is_refused_with_a_hint(command, cupboard):
    for action in ("fetch", "verify"):
        code, _, message = command(action, "gest")
        assert code == 2
        assert "Did you mean 'guest'?" in message


def test_verifying_all_passes_over_what_was_never_fetched(command, cupboard):
    code, output, _ = command("verify")
    assert code == 0
    assert line(output, "guest").split() == ["guest", "absent"]
    assert line(output, "embedded").split() == ["embedded", "nothing", "to", "fetch"]


def test_verifying_one_that_was_never_fetched_fails(command, cupboard):
    code, _, message = command("verify", "guest")
    assert code == 2
    assert "drobench data fetch guest" in message


def test_verifying_reads_every_byte(command, cupboard, tmp_path, cache):
    (tmp_path / "guest.csv").write_bytes(CONTENT)
    command("fetch", "guest", "--from", tmp_path)
    assert command("verify", "guest")[0] == 0
    (cache / "guest" / "guest.csv").write_bytes(CONTENT[::-1])
    code, output, message = command("verify")
    assert code == 2
    assert line(output, "guest").split() == ["guest", "damaged"]
    assert "found guest damaged" in message
    command("fetch", "manual", "--from", tmp_path)
    assert "found guest, manual damaged" in command("verify")[2]


def test_every_action_has_help_with_an_example(command):
    for words in ((), ("fetch",), ("verify",)):
        code, output, _ = command(*words, "--help")
        assert code == 0
        assert "example:\n  drobench data" in output


@pytest.mark.parametrize("words", [("fetch",), ("verify", "a", "b"), ("what",), ("--from", "x")])
def test_wrong_use_has_code_2(words, command):
    assert command(*words)[0] == 2


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"files": [FILE]}, "a tuple of RemoteFile"),
        ({"files": ("guest.csv",)}, "a tuple of RemoteFile"),
        ({"licence": None}, "a text, empty if there is none"),
        ({"intake": "ask"}, "an Intake, or None"),
        ({"files": (FILE,), "intake": Intake("x", lambda _: [], lambda _: State.ABSENT)}, "both of them"),
    ],
)
def test_entries_that_say_something_else_are_refused(fields, found):
    with pytest.raises(EntryError) as caught:
        dataset("guest", **fields)
    assert found in str(caught.value)


@pytest.mark.skipif(
    not any(REAL.rglob("adult.data")), reason=f"the real data are not in {REAL}; DROBENCH_REAL_DATA=DIR says where"
)
def test_the_real_data_are_fetched_from_a_folder(command):
    for name in ("adult", "communities_crime", "mslr"):
        assert command("fetch", name, "--from", REAL)[0] == 0
        assert command("verify", name)[0] == 0
