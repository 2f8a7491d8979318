"""One plugin at a time, sound or not, always beside a sound one that must not suffer."""

import os
import sys
import time
from types import SimpleNamespace

import pluggy
import pytest

from drobench.registry import Trouble, build_catalogue, hookimpl, hookspecs
from drobench.registry.hookspecs import ENTRY_OF_HOOK


@pytest.fixture
def read_beside_a_sound_one(plugin, source, solver):
    """Read a plugin beside a sound one, which sorts after it, and return the catalogue."""

    def read(guest: object, **options):
        sound = source(plugin(drobench_solvers=[solver("sound")]), name="sound", distribution="zebra")
        catalogue = build_catalogue([source(guest), sound], **options)
        assert "sound" in catalogue.solvers
        assert all((trouble.plugin, trouble.distribution) == ("guest", "stranger") for trouble in catalogue.troubles)
        return catalogue

    return read


def only(troubles: tuple[Trouble, ...]) -> Trouble:
    assert len(troubles) == 1, troubles
    return troubles[0]


def test_each_hook_of_the_list_is_specified():
    manager = pluggy.PluginManager("drobench")
    manager.add_hookspecs(hookspecs)
    assert {name for name in vars(manager.hook) if not name.startswith("_")} == set(ENTRY_OF_HOOK)
    assert all(getattr(hookspecs, name).__doc__ for name in ENTRY_OF_HOOK)


def test_the_entries_of_all_three_hooks_are_found(read_beside_a_sound_one, plugin, solver, problem, dataset):
    guest = plugin(
        drobench_solvers=[solver("s1"), solver("s2")],
        drobench_problems=[problem("p")],
        drobench_datasets=[dataset("d")],
    )
    catalogue = read_beside_a_sound_one(guest)
    assert list(catalogue.solvers) == ["s1", "s2", "sound"]
    assert list(catalogue.problems) == ["p"]
    assert list(catalogue.datasets) == ["d"]
    assert catalogue.troubles == ()


def test_a_class_with_hooks_is_a_plugin_too(read_beside_a_sound_one, solver):
    class Hooks:
        @staticmethod
        @hookimpl
        def drobench_solvers():
            return [solver("from_class")]

    catalogue = read_beside_a_sound_one(lambda: Hooks)
    assert "from_class" in catalogue.solvers
    assert catalogue.troubles == ()


def test_an_empty_list_is_no_trouble(read_beside_a_sound_one, plugin):
    assert read_beside_a_sound_one(plugin(drobench_solvers=[])).troubles == ()


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("not even this works")


class Panic(BaseException):
    """As Rust extensions raise: outside `Exception`."""


def raising(error: BaseException):
    def load():
        raise error

    return load


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ImportError("no\n  module"), "its import failed with ImportError: no module."),
        (SyntaxError("oops"), "SyntaxError: oops"),
        (SystemExit(3), "its import tried to end the program (SystemExit: 3)"),
        (SystemExit(), "tried to end the program (SystemExit)"),
        (Panic("boom"), "failed with Panic: boom"),
        (GeneratorExit(), "failed with GeneratorExit."),
        (StopIteration(), "failed with StopIteration."),
        (UnprintableError(), "failed with UnprintableError: (its text cannot be printed)"),
    ],
)
def test_a_plugin_that_fails_to_import_is_reported(read_beside_a_sound_one, error, text):
    trouble = only(read_beside_a_sound_one(raising(error)).troubles)
    assert text in trouble.message
    assert "DROBENCH_DISABLE_PLUGINS=guest" in trouble.message
    assert "Traceback" in trouble.details
    assert type(error).__name__ in trouble.details


def test_a_keyboard_interrupt_is_not_held_back(source):
    with pytest.raises(KeyboardInterrupt):
        build_catalogue([source(raising(KeyboardInterrupt()))])


def test_a_keyboard_interrupt_in_a_hook_is_not_held_back(source, plugin):
    with pytest.raises(KeyboardInterrupt):
        build_catalogue([source(plugin(drobench_solvers=raising(KeyboardInterrupt())))])


def test_a_plugin_that_hangs_on_import_is_reported_in_time(read_beside_a_sound_one):
    started = time.monotonic()
    trouble = only(read_beside_a_sound_one(lambda: time.sleep(60), timeout=0.2).troubles)
    assert time.monotonic() - started < 20
    assert "its import took longer than 0.2 s and was stopped" in trouble.message
    assert "DROBENCH_PLUGIN_TIMEOUT" in trouble.message


def test_a_hook_that_hangs_is_reported_and_the_others_are_used(read_beside_a_sound_one, plugin, problem):
    guest = plugin(drobench_solvers=lambda: time.sleep(60), drobench_problems=[problem("p")])
    catalogue = read_beside_a_sound_one(guest, timeout=0.2)
    assert "its hook `drobench_solvers` took longer than 0.2 s" in only(catalogue.troubles).message
    assert list(catalogue.problems) == ["p"]


def test_a_misspelt_hook_is_reported_with_a_hint_and_the_others_are_used(
    read_beside_a_sound_one, plugin, solver, problem
):
    guest = plugin(drobench_solver=[solver("lost")], drobench_problems=[problem("p")])
    catalogue = read_beside_a_sound_one(guest)
    message = only(catalogue.troubles).message
    assert "there is no hook called 'drobench_solver'" in message
    assert "Did you mean 'drobench_solvers'?" in message
    assert "lost" not in catalogue.solvers
    assert list(catalogue.problems) == ["p"]


def test_a_hook_like_no_other_is_reported_without_a_hint(read_beside_a_sound_one, plugin):
    message = only(read_beside_a_sound_one(plugin(xyz=[])).troubles).message
    assert "there is no hook called 'xyz'" in message
    assert "Did you mean" not in message
    assert "`drobench_solvers`, `drobench_problems`, `drobench_datasets`" in message


def test_the_name_given_in_the_mark_counts(read_beside_a_sound_one, solver):
    @hookimpl(specname="drobench_solvers")
    def more():
        return [solver("more")]

    @hookimpl(specname="drobench_solvrs")
    def other():
        return []

    catalogue = read_beside_a_sound_one(SimpleNamespace(more=more, other=other))
    assert "more" in catalogue.solvers
    assert "'drobench_solvrs'" in only(catalogue.troubles).message


def test_an_unknown_hook_marked_as_optional_is_no_trouble(read_beside_a_sound_one, plugin):
    guest = plugin(drobench_solvers=[])
    guest.drobench_models = hookimpl(optionalhook=True)(lambda: [])
    assert read_beside_a_sound_one(guest).troubles == ()


def test_a_hook_without_the_mark_is_reported(read_beside_a_sound_one, plugin, solver):
    guest = plugin(drobench_problems=[])
    guest.drobench_solvers = lambda: [solver("lost")]
    catalogue = read_beside_a_sound_one(guest)
    assert "`drobench_solvers` is not marked as a hook" in only(catalogue.troubles).message
    assert "lost" not in catalogue.solvers


@pytest.mark.parametrize("guest", [SimpleNamespace(), None, 7])
def test_a_plugin_without_hooks_is_reported(read_beside_a_sound_one, guest):
    message = only(read_beside_a_sound_one(lambda: guest).troubles).message
    assert "has no hook" in message
    assert f"found {type(guest).__name__} without any" in message


@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit("boom"), Panic("boom")])
def test_a_hook_that_raises_is_reported_and_the_others_are_used(read_beside_a_sound_one, plugin, dataset, error):
    guest = plugin(drobench_solvers=raising(error), drobench_datasets=[dataset("d")])
    catalogue = read_beside_a_sound_one(guest)
    trouble = only(catalogue.troubles)
    assert "its hook `drobench_solvers`" in trouble.message
    assert f"{type(error).__name__}: boom" in trouble.message
    assert list(catalogue.datasets) == ["d"]


def test_an_entry_that_is_refused_is_reported_with_its_own_message(read_beside_a_sound_one, plugin, solver):
    message = only(read_beside_a_sound_one(plugin(drobench_solvers=lambda: [solver("Bad")])).troubles).message
    assert "EntryError: SolverEntry 'Bad': `name` must be" in message


def test_a_hook_with_arguments_is_reported_and_the_others_are_used(read_beside_a_sound_one, plugin, problem):
    guest = plugin(drobench_problems=[problem("p")])
    guest.drobench_solvers = hookimpl(lambda config: [])
    catalogue = read_beside_a_sound_one(guest)
    message = only(catalogue.troubles).message
    assert "its hook `drobench_solvers` failed with PluginValidationError" in message
    assert "config" in message
    assert list(catalogue.problems) == ["p"]


@pytest.mark.parametrize(("returned", "found"), [(None, "NoneType"), ((), "tuple"), ({}, "dict"), ("abc", "str")])
def test_a_hook_that_returns_no_list_is_reported(read_beside_a_sound_one, plugin, returned, found):
    message = only(read_beside_a_sound_one(plugin(drobench_solvers=lambda: returned)).troubles).message
    assert f"`drobench_solvers` must return a list of SolverEntry; found {found}" in message


def test_what_is_no_entry_is_reported_and_the_rest_of_the_list_is_used(read_beside_a_sound_one, plugin, solver):
    catalogue = read_beside_a_sound_one(plugin(drobench_solvers=[solver("a"), "b", solver("c")]))
    assert {"a", "c"} <= set(catalogue.solvers)
    assert "found an element of type str" in only(catalogue.troubles).message


def test_an_entry_from_the_wrong_hook_is_reported(read_beside_a_sound_one, plugin, solver, problem):
    catalogue = read_beside_a_sound_one(plugin(drobench_solvers=[solver("a"), problem("p")]))
    message = only(catalogue.troubles).message
    assert "must return a list of SolverEntry; found ProblemEntry 'p'. Return it from `drobench_problems`" in message
    assert catalogue.problems == {}
    assert "a" in catalogue.solvers


def test_a_wrapper_cannot_touch_what_others_return(read_beside_a_sound_one):
    @hookimpl(wrapper=True)
    def drobench_solvers():
        yield
        return []

    catalogue = read_beside_a_sound_one(SimpleNamespace(drobench_solvers=drobench_solvers))
    assert list(catalogue.solvers) == ["sound"]
    assert len(catalogue.troubles) == 1


def test_a_trouble_prints_with_plugin_and_package():
    trouble = Trouble(plugin="guest", distribution="stranger", message="went wrong.", details="Traceback")
    assert str(trouble) == "plugin 'guest' of stranger: went wrong."
    assert str(Trouble(plugin="", distribution="stranger", message="is damaged.")) == "stranger: is damaged."


def test_the_limit_stays_off_where_alarms_do_not_work(read_beside_a_sound_one, plugin, solver, monkeypatch):
    monkeypatch.delattr(sys.modules["drobench.registry.time_limit"].signal, "setitimer")
    catalogue = read_beside_a_sound_one(plugin(drobench_solvers=[solver("a")]), timeout=0.2)
    assert "a" in catalogue.solvers


@pytest.mark.parametrize("at", ["import", "hook"])
@pytest.mark.parametrize("name", ["device", "dtype"])
def test_a_plugin_that_changes_torch_for_everybody_is_named_and_the_change_undone(
    read_beside_a_sound_one, plugin, solver, at, name
):
    import torch

    before = torch.get_default_device(), torch.get_default_dtype()

    def change():
        if name == "device":
            torch.set_default_device("meta")
        else:
            torch.set_default_dtype(torch.float64)
        return [solver("changing")]

    def load():
        change()
        return plugin(drobench_solvers=[solver("changing")])

    try:
        catalogue = read_beside_a_sound_one(load if at == "import" else plugin(drobench_solvers=change))
        assert (torch.get_default_device(), torch.get_default_dtype()) == before
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(before[1])
    trouble = only(catalogue.troubles)
    assert f"changed torch's default {name}" in trouble.message
    # What it offers is sound.
    assert "changing" in catalogue.solvers


@pytest.mark.parametrize("at", ["import", "hook"])
def test_a_plugin_that_ends_the_program_at_once_is_a_trouble(read_beside_a_sound_one, plugin, at):
    def end():
        os._exit(0)

    catalogue = read_beside_a_sound_one(end if at == "import" else plugin(drobench_solvers=end))
    assert "tried to end the program (os._exit: 0)" in only(catalogue.troubles).message
