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


def test_a_problem_is_tried_on_the_data_that_are_named(capsys):
    words = ("--dataset", "wine", "dataset.split=[0.5,0.2,0.3]", "-k", "slopes or seeded")
    code, printed, _ = run(capsys, "kl_classification", *words)
    assert code == 0
    assert "1 passed" in printed


def test_a_model_is_tried_on_rows_of_the_shape_of_the_data(capsys):
    code, printed, _ = run(capsys, "cnn", "channels=[4]", "--dataset", "digits", "-k", "function")
    assert code == 0
    assert "1 passed" in printed


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["kl_classification", "--dataset", "wime"], "Did you mean 'wine'?"),
        (["kl_classification", "--dataset", "wine", "dataset.rowz=3"], "found 'rowz'"),
        (["kl_classification", "--dataset", "synthetic", "dataset.rows=-3"], "rows"),
        (["kl_classification", "--dataset", "diabetes"], "needs labels, which dataset 'diabetes' does not provide"),
        (["cnn", "--dataset", "wine"], "needs images, which dataset 'wine' does not provide"),
        (["gcivr", "--dataset", "wine"], "A solver is not tried on a dataset"),
        (["kl_classification", "dataset.rows=3"], "Name it with `--dataset NAME`"),
    ],
)
def test_data_that_will_not_do_are_named_once(capsys, words, text):
    code, _, printed = run(capsys, *words)
    assert code == 2
    assert text in " ".join(printed.split())


def test_a_bad_setting_is_told_once(capsys):
    code, printed, _ = run(capsys, "unconstrained", "learning_rate=-1")
    assert code == 1
    assert " ".join(printed.split()).count("which it refuses") == 1
    assert "0 passed, 1 failed" in printed


def test_without_pytest_it_says_what_to_install(capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "pytest" else find(name, *rest)
    )
    code, _, printed = run(capsys, "unconstrained")
    assert code == 2
    assert "drobench[checks]" in printed
