"""The help of `drobench run`, told without Hydra's way to it."""

import pytest
from hydra._internal.utils import get_args_parser

from drobench.app import run_help


@pytest.mark.parametrize("words", [[], ["solver=scgd", "solver.batch=3"], ["--resolve", "experiment=kl_synthetic"]])
def test_it_says_what_hydra_says(command, monkeypatch, words):
    ours = command("run", "--help", *words)
    monkeypatch.setattr(run_help, "can_tell", lambda typed: False)
    assert command("run", "--help", *words) == ours
    assert ours.code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--help"], True), (["--help", "solver=scgd"], True), (["solver=scgd"], False), (["--help", "-cd", "x"], False)],
)
def test_what_hydra_alone_can_find_is_left_to_it(words, told):
    assert run_help.can_tell(get_args_parser().parse_args(words)) is told
