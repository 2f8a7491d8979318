"""What a solver requires of a form, and how a combination that lacks it is refused."""

from dataclasses import dataclass

import pytest

from drobench.objective.capabilities import Capability, overrides, provided_by, those_of
from drobench.registry import EntryError, NeedsNotMet, SolverEntry, check_requirements


@dataclass
class Settings:
    rate: float = 1.0


class Plain:
    """A stranger's form, which says nothing of what it can do."""


class Able(Plain):
    provides = frozenset({Capability.ROW_TERMS, Capability.PROJECTION})


def entry(name="mine", *requires, accepts=(Plain,)):
    return SolverEntry(
        name=name, summary="Mine.", config=Settings, factory=dict, accepts=accepts, requires=tuple(requires)
    )


def test_an_entry_that_requires_nothing_works_on_anything():
    plain = SolverEntry(name="old", summary="Old.", config=Settings, factory=dict, accepts=(Plain,))
    assert plain.requires == ()
    check_requirements(plain, Plain())
    check_requirements(plain, object())


def test_a_form_that_has_all_is_let_through():
    check_requirements(entry("mine", Capability.ROW_TERMS), Able())
    check_requirements(entry("mine", Capability.PROJECTION, Capability.ROW_TERMS), Able())


def test_a_refusal_names_the_solver_the_form_what_is_missing_and_what_to_do():
    needy = entry("needy", Capability.ROW_TERMS, Capability.CONVEXITY)
    others = [needy, entry("modest"), entry("elsewhere", accepts=(int,)), entry("projects", Capability.PROJECTION)]
    with pytest.raises(NeedsNotMet) as caught:
        check_requirements(needy, Able(), others)
    text = str(caught.value)
    assert "Solver 'needy' requires what this problem, as a Able, does not have" in text
    assert "convexity, that is, convexity, of its objective" in text
    assert "row_terms" not in text
    assert "Installed solvers that would do: modest, projects." in text
    with pytest.raises(NeedsNotMet, match="row_terms, that is, terms of single rows"):
        check_requirements(needy, Plain())


@pytest.mark.parametrize("wrong", ["row_terms", ["row_terms"], ("row_terms",), [Capability.ROW_TERMS], None])
def test_requires_holds_capabilities_only(wrong):
    with pytest.raises(EntryError, match=r"`requires` must be a tuple of `Capability`, whose members are ROW_TERMS, "):
        SolverEntry(name="mine", summary="Mine.", config=Settings, factory=dict, accepts=(Plain,), requires=wrong)


def test_every_capability_says_what_it_is():
    assert all(len(capability.value.split()) >= 3 for capability in Capability)


def test_capabilities_are_found_by_name():
    assert those_of(row_terms=True, projection=False) == {Capability.ROW_TERMS}
    with pytest.raises(KeyError, match="FLYING"):
        those_of(flying=True)
    assert provided_by(Plain()) == frozenset()


def test_a_method_of_its_own_is_told_from_that_of_the_base():
    class Base:
        def ask(self):
            raise NotImplementedError

    class Child(Base):
        def ask(self):
            return 1

    assert overrides(Child(), Base, "ask")
    assert not overrides(Base(), Base, "ask")
