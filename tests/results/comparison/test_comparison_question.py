"""The settings of a comparison."""

import dataclasses
import math
import subprocess
import sys

import pytest
from result_samples import make_record

from drobench.errors import SettingError
from drobench.results.comparison.grouping import Across
from drobench.results.comparison.question import DEFAULT_QUESTION, SETTINGS, Question
from drobench.results.comparison.targets import DEFAULT_TARGETS, Target
from drobench.results.record import Iterate, Iterates


@pytest.mark.parametrize("settings", [{"iterate": "first"}, {"target_gap": 0}, {"target_gap": math.inf}])
def test_impossible_settings_are_refused(runs, settings):
    runs.add("fast", 0, [2.0])
    with pytest.raises(SettingError, match=next(iter(settings))):
        runs.compare(**settings)


def test_without_settings_it_asks_for_the_default_targets_of_the_last_iterate():
    assert Question.of() == Question() == DEFAULT_QUESTION
    assert Question().targets == DEFAULT_TARGETS
    assert (Question().iterate, Question().cost, Question().across.names) == ("last", "passes", ())


def test_what_users_write_becomes_what_is_meant():
    error = Target.of(error=0.2, violation=0.01)
    asked = Question.of(target_gap=0.5, targets=[error], across=["problem.surrogate", "dataset.seed"], by="test_error")
    assert asked.targets == (Target.of(gap=0.5), error)
    assert asked.across == Across(("problem.surrogate", "dataset.seed"))
    assert Question.of(targets=[]).targets == DEFAULT_TARGETS, "no --target at all is an empty list"
    assert Question.of(targets=[error]).allowed == 0.01
    assert Question.of(target_gap=0.5).allowed is None


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("iterate", "first", "last, average, best_feasible"),
        ("cost", "money", "passes, oracle_calls, seconds, bytes"),
        ("by", "relative_gap", "objective, gap, train_error, .* such as test_worst_group_error"),
        ("by", "worst_group_error", "objective, gap, train_error, .* such as test_worst_group_error"),
        ("columns", ("feasible",), "objective, gap, train_error, .* such as test_worst_group_error"),
        ("select", "test", "validation"),
    ],
)
def test_it_checks_itself_and_names_what_there_is(name, value, known):
    found = value if isinstance(value, str) else value[0]
    with pytest.raises(SettingError, match=f"`{name}` must be one of {known}; found {found!r}"):
        Question(**{name: value})


def test_a_question_without_a_target_or_about_another_task_is_none():
    with pytest.raises(SettingError, match="at least one target"):
        Question(targets=())
    with pytest.raises(SettingError, match=r"budget\.passes"):
        Question.of(across=["budget.passes"])


def test_nothing_of_it_can_be_changed_or_misspelt():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Question().cost = "bytes"
    with pytest.raises(TypeError, match="itrate"):
        Question.of(itrate="last")


def test_the_settings_are_those_that_can_be_written():
    written = {
        "target_gap": 0.1,
        "targets": None,
        "iterate": "last",
        "cost": "bytes",
        "by": None,
        "across": (),
        "baseline": "a",
        "select": None,
        "columns": ["test_error"],
    }
    assert set(SETTINGS) == set(written)
    assert Question.of(**written).baseline == "a"


def test_the_iterate_in_question_is_taken_from_a_run():
    last, average = Iterate(gap=1.0), Iterate(gap=2.0)
    record = dataclasses.replace(make_record(), iterates=Iterates(last=last, average=average))
    assert Question().point(record) is last
    assert Question(iterate="average").point(record) is average
    assert Question(iterate="best_feasible").point(record) is None


@pytest.mark.process
def test_asking_loads_neither_torch_nor_polars_nor_scipy():
    script = (
        "import sys, drobench.results.comparison.question;"
        "print([name for name in ('torch', 'polars', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
