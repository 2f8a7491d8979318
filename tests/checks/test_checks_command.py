"""`drobench check` on what is installed."""

import importlib.util

import pytest

from drobench.app.cli import main


def run(capsys, *words) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["check", *words])
    printed = capsys.readouterr()
    return ended.value.code, printed.out, printed.err


def test_checks_are_listed_with_their_results(capsys):
    code, printed, _ = run(capsys, "unconstrained", "-k", "complete or seed")
    assert code == 0
    assert "solver unconstrained" in printed
    assert "entry is complete" in printed
    # A narrow terminal breaks the lines.
    assert "it draws nothing: the generator is untouched" in " ".join(printed.split())
    assert "2 passed, 0 failed, 1 skipped" in printed


def test_a_failed_check_is_told_in_words_and_by_the_code(capsys):
    code, printed, _ = run(capsys, "unconstrained", "learning_rate=1e-6", "-k", "certified")
    assert code == 1
    assert "relative gap" in " ".join(printed.split())
    assert "0 passed, 1 failed, 0 skipped" in printed


def test_settings_come_from_the_command_line(capsys):
    code, printed, _ = run(capsys, "unconstrained", "batch=8", "learning_rate=1e-2", "-k", "another_seed")
    assert code == 0
    assert "1 passed" in printed


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["unconstraned"], "Did you mean 'unconstrained'?"),
        (["unconstrained", "batch"], "KEY=VALUE"),
        (["unconstrained", "-k", "moon"], "No check fits"),
    ],
)
def test_wrong_use_is_explained(capsys, words, text):
    code, _, printed = run(capsys, *words)
    assert code == 2
    assert text in printed


def test_without_pytest_it_says_what_to_install(capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "pytest" else find(name, *rest)
    )
    code, _, printed = run(capsys, "unconstrained")
    assert code == 2
    assert "drobench[checks]" in printed
