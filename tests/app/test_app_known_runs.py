"""A finished run is shown again without anything being imported, and only where nothing has changed."""

import json
import os
import subprocess
import sys

import pytest
from app_samples import SMALL, altered, records_in

from drobench import registry
from drobench.app import cell, hydra_job
from drobench.app.known_runs import FOLDER, stamps_of
from drobench.registry import Listing, listing, no_files
from drobench.results.store import ResultStore


@pytest.fixture
def installed(catalogue, monkeypatch):
    """Let the command line know what is installed, as in a new process; gives a way to change that."""
    found = listing._catalogue(listing._values(catalogue))
    here = {"state": "as it is"}
    monkeypatch.setattr(registry, "find_listing", lambda: Listing(found, here["state"]))
    monkeypatch.setattr(hydra_job, "state_here", lambda: here["state"])
    return here


@pytest.fixture
def ask(command, results, installed, monkeypatch):
    """Run a command, and say whether the run was shown without going the long way."""

    def call(*words, code=0):
        long_way = []
        monkeypatch.setattr(cell, "run_cell", lambda *given, **more: long_way.append(1) or run_cell(*given, **more))
        outcome = command("run", *SMALL, "solver=scgd", f"results={results}", *words)
        assert outcome.code == code, outcome
        return outcome, not long_way

    run_cell = cell.run_cell
    return call


def notes_in(results):
    return sorted((results / FOLDER).glob("*.json"))


def test_the_second_time_the_run_is_shown_as_it_is_stored(ask, results):
    first, short = ask("solver.batch=3")
    assert not short
    again, short = ask("solver.batch=3")
    assert short
    lines = first.out.splitlines()
    assert [line for line in again.out.splitlines() if "It was there already" not in line] == lines
    assert "It was there already" in again.out
    assert len(records_in(results)) == 1


def test_another_question_goes_the_long_way(ask):
    ask()
    assert not ask("seed=1")[1]
    assert not ask("solver.batch=3")[1]
    assert ask()[1]


def test_what_is_not_asked_does_not_matter(ask, results):
    ask()
    assert ask("timeout=1000")[1]
    assert ask(f"results={results.parent / '.' / 'results'}")[1]


@pytest.mark.parametrize("words", [["logger=csv"], ["trust=any"], ["trainer=ddp_cpu"]])
def test_what_depends_on_more_goes_the_long_way(ask, words):
    ask()
    assert not ask(*words)[1]


def test_anything_edited_or_installed_means_the_long_way(ask, installed):
    ask()
    installed["state"] = "edited"
    assert not ask()[1]
    assert ask()[1]
    installed["state"] = None
    assert not ask()[1]


def test_what_was_edited_while_the_run_was_computed_is_not_noted(ask, monkeypatch, results):
    monkeypatch.setattr(hydra_job, "state_here", lambda: "edited meanwhile")
    ask()
    assert not notes_in(results)
    assert not ask()[1]


def test_code_that_the_checksum_does_not_cover_is_not_noted(ask, monkeypatch, results):
    monkeypatch.setattr(hydra_job, "packages_here", lambda: {"drobench"})
    ask()
    assert not notes_in(results)


def test_a_run_that_is_gone_damaged_or_of_other_code_goes_the_long_way(ask, results):
    ask()
    (folder,) = records_in(results)
    altered(results, folder.name, lambda content: content["code"].update(drobench="0" * 64))
    again, short = ask()
    assert not short
    assert "computed again" in again.err
    assert ask()[1]
    (folder / "curve.parquet").write_bytes(b"")
    assert not ask()[1]
    assert ask()[1]
    ResultStore(results).remove(folder.name)
    assert not ask()[1]


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{}",
        '{"run_id": 3, "code": {}, "files": []}',
        '{"run_id": "../..", "code": {}, "files": []}',
        '{"run_id": "a", "code": {}, "files": [[]]}',
    ],
)
def test_a_damaged_note_is_written_again(ask, results, damage):
    ask()
    (note,) = notes_in(results)
    whole = note.read_text()
    note.write_text(damage)
    assert not ask()[1]
    assert note.read_text() == whole
    assert ask()[1]


def test_a_failed_run_is_not_noted(command, misbehaving, results, monkeypatch):
    found = registry.load_catalogue()
    monkeypatch.setattr(registry, "find_listing", lambda: Listing(found, "as it is"))
    monkeypatch.setattr(hydra_job, "state_here", lambda: "as it is")
    monkeypatch.setattr(hydra_job, "packages_here", lambda: {"drobench", "drobench_plugins", "misbehaving_guests"})
    assert command("run", *SMALL, "solver=raising", f"results={results}").code == 1
    assert not notes_in(results)
    assert command("run", *SMALL, "solver=sound", f"results={results}").code == 0
    assert len(notes_in(results)) == 1


def test_an_edited_table_is_read_again(command, results, installed, tmp_path):
    table = tmp_path / "table.csv"
    rows = [f"{x % 7},{x % 5},{int(x % 7 > 2)}" for x in range(60)]
    table.write_text("\n".join(["a,b,label", *rows]) + "\n")
    words = ("dataset=tabular", f"dataset.path={table}", "dataset.label=label", *SMALL[4:], f"results={results}")
    assert command("run", *words).code == 0
    assert "already" in command("run", *words).out
    (note,) = notes_in(results)
    assert json.loads(note.read_text())["files"][0][0] == str(table)
    times = table.stat().st_atime_ns, table.stat().st_mtime_ns
    table.write_text("\n".join(["a,b,label", *rows[::-1]]) + "\n")
    # Of the same size, and as if it were of the same time.
    os.utime(table, ns=times)
    assert "already" not in command("run", *words).out
    assert len(records_in(results)) == 2


def test_the_same_word_from_another_folder_is_another_file(command, results, installed, tmp_path, monkeypatch):
    for name, numbers in (("one", range(60)), ("other", range(30, 90))):
        (tmp_path / name).mkdir()
        rows = [f"{x % 7},{x % 5},{int(x % 7 > 2)}" for x in numbers]
        (tmp_path / name / "table.csv").write_text("\n".join(["a,b,label", *rows]) + "\n")
        monkeypatch.chdir(tmp_path / name)
        words = ("dataset=tabular", "dataset.path=table.csv", "dataset.label=label", *SMALL[4:], f"results={results}")
        shown = command("run", *words)
        assert shown.code == 0, shown
        assert "already" not in shown.out
    assert len(records_in(results)) == 2


def test_datasets_say_which_files_they_read(catalogue, tmp_path, dataset_settings):
    made = catalogue.dataset("synthetic").entry
    assert made.reads is no_files
    assert stamps_of(made, None) == []
    assert stamps_of(catalogue.dataset("adult").entry, None) is None
    file = tmp_path / "table.csv"
    tabular = catalogue.dataset("tabular").entry
    assert stamps_of(tabular, dataset_settings(file)) is None  # it is not there
    file.write_text("1")
    (before,) = stamps_of(tabular, dataset_settings(file))
    assert before[:2] == [str(file), 1]
    file.write_text("2")
    assert stamps_of(tabular, dataset_settings(file)) != [before]


@pytest.fixture
def dataset_settings():
    from drobench_plugins.datasets.tabular import TabularConfig

    return lambda file: TabularConfig(path=str(file), label="label")


@pytest.mark.process
def test_a_repeated_run_imports_no_torch(tmp_path):
    code = (
        "import sys\n"
        "from drobench.app.cli import main\n"
        "try:\n    main(['run', *sys.argv[1:]])\n"
        "finally:\n    print([name for name in ('torch', 'pytorch_lightning') if name in sys.modules])\n"
    )
    words = [sys.executable, "-c", code, *SMALL, f"results={tmp_path}/results"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    told = []
    for _ in range(2):
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
        told.append(done.stdout.splitlines()[-1])
    assert told == ["['torch', 'pytorch_lightning']", "[]"]
