import dataclasses
from dataclasses import dataclass, field

import pytest

from drobench.errors import DrobenchError
from drobench.registry import DatasetEntry, EntryError, ProblemEntry, SolverEntry


def test_a_sound_entry_keeps_what_it_was_given(solver, problem, dataset):
    assert solver("a_1").name == "a_1"
    assert (solver("a").reference, solver("a").exact, solver("a").reconstructed) == ("", False, False)
    assert problem("p", "groups").needs == {"groups"}
    assert dataset("d", "groups", "queries").provides == {"groups", "queries"}
    assert (SolverEntry.kind, ProblemEntry.kind, DatasetEntry.kind) == ("solver", "problem", "dataset")


def test_needs_and_provides_are_empty_by_default(solver):
    fields = {"name": "x", "summary": "X.", "config": solver("s").config, "factory": dict}
    assert ProblemEntry(**fields).needs == frozenset()
    assert DatasetEntry(**fields).provides == frozenset()


def test_an_entry_cannot_be_changed(solver):
    with pytest.raises(dataclasses.FrozenInstanceError):
        solver("a").name = "b"


def test_an_entry_takes_keywords_only():
    with pytest.raises(TypeError, match="positional"):
        SolverEntry("a", "summary")


@pytest.mark.parametrize("name", ["", "Upper", "1st", "_a", "with-dash", "with space", "a\n", "é", None, 3])
def test_a_bad_name_is_refused(solver, name):
    with pytest.raises(EntryError, match=r"`name` must be a name of lower-case letters.*found"):
        solver(name)


@pytest.mark.parametrize("summary", ["", "  ", "two\nlines", "ends\n\nlate", None])
def test_a_summary_is_one_line(solver, summary):
    with pytest.raises(EntryError, match=r"SolverEntry 'a': `summary` must be one non-empty line"):
        solver("a", summary=summary)


def test_a_reference_is_text(solver):
    with pytest.raises(EntryError, match=r"`reference` must be a text.*found None"):
        solver("a", reference=None)


@dataclass
class NoDefault:
    first: int
    second: float = 1.0
    third: list = field(default_factory=list)


@dataclass
class Named:
    name: str = "x"


class Plain:
    pass


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Plain, r"`config` must be a dataclass.*found <class"),
        (Named(), r"`config` must be a dataclass \(the class itself, not an instance\)"),
        (None, r"`config` must be a dataclass.*found None"),
        (NoDefault, r"fields all have defaults; found none for first\."),
        (Named, r"without a field called `name`.*found Named\.name"),
    ],
)
def test_a_config_is_a_dataclass_with_defaults_and_without_a_name(problem, config, message):
    with pytest.raises(EntryError, match=message):
        problem("p", config=config)


def test_a_default_factory_is_a_default(solver):
    @dataclass
    class Lists:
        hidden: list = field(default_factory=list)

    assert solver("a", config=Lists).config is Lists


def test_a_factory_is_callable(dataset):
    with pytest.raises(EntryError, match=r"DatasetEntry 'd': `factory` must be something callable; found 7"):
        dataset("d", factory=7)


@pytest.mark.parametrize("accepts", [(), [int], int, ("Composite",), None])
def test_a_solver_accepts_at_least_one_form_class(solver, accepts):
    with pytest.raises(EntryError, match=r"SolverEntry 'a': `accepts` must be a tuple of at least one form class"):
        solver("a", accepts=accepts)


@pytest.mark.parametrize("words", ["groups", {"groups"}, ["groups"], frozenset({1})])
def test_needs_and_provides_are_frozensets_of_words(problem, dataset, words):
    with pytest.raises(EntryError, match="`needs` must be a frozenset of words"):
        problem("p", needs=words)
    with pytest.raises(EntryError, match="`provides` must be a frozenset of words"):
        dataset("d", provides=words)


def test_what_is_provided_on_request_is_provided(dataset):
    entry = dataset("d", provides=frozenset({"groups"}), on_request={"groups": "group=COLUMN"})
    assert entry.on_request == {"groups": "group=COLUMN"}
    with pytest.raises(EntryError, match="`on_request` must be settings for words of `provides`"):
        dataset("d", provides=frozenset({"labels"}), on_request={"groups": "group=COLUMN"})


def test_the_error_is_for_people_and_says_what_to_do(solver):
    with pytest.raises(DrobenchError, match="Correct the entry in the plugin that returns it"):
        solver("Bad")
