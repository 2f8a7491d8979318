"""The settings of a run as they are explained."""

import pytest

from drobench.app.config import RunConfig
from drobench.app.setting_texts import RUN, kinds_of, written


def test_every_setting_of_a_run_is_under_some_word(catalogue):
    import dataclasses

    kinds = kinds_of(catalogue)
    alone = {setting.name for setting in kinds[RUN].settings}
    for item in dataclasses.fields(RunConfig):
        assert item.name in kinds or item.name in alone
    assert not alone & set(kinds)
    assert {setting.name for setting in kinds["reformulation"].settings} >= {"alpha", "gamma"}


def test_kinds_are_called_as_on_the_command_line(catalogue):
    kinds = kinds_of(catalogue)
    assert kinds["solver"].plugins == catalogue.solvers
    assert kinds["loss"].plugins == catalogue.losses


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), (1.0, "1.0"), ("last", "last"), ("", '""'), ([1, 2], "[1, 2]"), ({}, "{}")],
)
def test_values_are_written_as_in_a_configuration(value, text):
    assert written(value) == text
