"""`drobench help`: everything that can be set is explained, and nothing is loaded for it."""

import pytest

from drobench.registry import load_catalogue


def test_without_a_word_it_lists_everything_there_is(command):
    shown = command("help")
    assert shown.code == 0
    lines = {line.split()[0]: line for line in shown.out.splitlines() if line.strip()}
    assert {"solver", "problem", "dataset", "model", "loss", "budget", "trainer", "evaluation", "run"} <= set(lines)
    assert "passes, oracle_calls" in lines["budget"]


@pytest.mark.parametrize("kind", ["solver", "problem", "dataset", "model", "loss"])
def test_every_plugin_has_its_settings_explained(command, kind, monkeypatch):
    import dataclasses

    monkeypatch.setenv("COLUMNS", "300")
    plural = "losses" if kind == "loss" else f"{kind}s"
    for name, found in getattr(load_catalogue(), plural).items():
        shown = command("help", kind, name)
        assert shown.code == 0
        assert found.entry.summary in shown.out
        for item in dataclasses.fields(found.entry.config):
            assert f"{kind}.{item.name}" in shown.out


def test_one_setting_is_explained_with_its_type_and_default(command):
    (line,) = [line for line in command("help", "solver", "scgd", "batch").out.splitlines() if "solver.batch" in line]
    assert line.split() == [
        "solver.batch",
        "int",
        "32",
        "S,",
        "of",
        "the",
        "samples",
        "and",
        "of",
        "the",
        "constraints.",
    ]


@pytest.mark.parametrize(
    ("words", "mentioned"),
    [
        (["budget", "passes"], "Sample rows touched"),
        (["budget.passes"], "Sample rows touched"),
        (["trainer"], "trainer.devices"),
        (["seed"], "dataset.seed"),
        (["run"], "trust"),
        (["solver"], "unconstrained"),
        (["solver.batch"], "scgd"),
        (["model", "mlp", "hidden"], "model.hidden"),
    ],
)
def test_settings_are_found_by_their_kind_and_by_their_dotted_name(command, words, mentioned):
    shown = command("help", *words)
    assert (shown.code, shown.err) == (0, "")
    assert mentioned in shown.out


@pytest.mark.parametrize(
    ("words", "mentioned"),
    [
        (["solvr"], "no kind or setting called 'solvr'. Did you mean 'solver'?"),
        (["solver", "gcvir"], "called 'gcvir'. Did you mean 'gcivr'?"),
        (["solver", "scgd", "bacth"], "no setting of solver 'scgd' called 'bacth'. Did you mean 'batch'?"),
        (["budget", "pases"], "no setting in budget called 'pases'. Did you mean 'passes'?"),
        (["solver.bacth"], "Did you mean 'batch'?"),
    ],
)
def test_a_misspelt_word_is_refused_with_the_nearest(command, words, mentioned):
    ended = command("help", *words)
    assert ended.code == 2
    assert mentioned in ended.err


def test_a_text_of_a_stranger_is_shown_and_not_obeyed(command, tmp_path, monkeypatch):
    from app_samples import forget_module, write_package

    source = '''
from dataclasses import dataclass
from drobench import DatasetEntry, hookimpl

@dataclass
class Config:
    rows: int = 3
    """A [bold]text\\x1b[2J."""

@hookimpl
def drobench_datasets():
    return [DatasetEntry(name="odd_texts", summary="Rows.", config=Config, factory=Config)]
'''
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "odd_guest", source)))
    load_catalogue.cache_clear()
    try:
        shown = command("help", "dataset", "odd_texts")
    finally:
        load_catalogue.cache_clear()
        forget_module("odd_guest")
    assert r"A [bold]text\x1b[2J." in shown.out
    assert "\x1b" not in shown.out
