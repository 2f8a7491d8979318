import itertools

import pytest

from drobench.errors import DrobenchError, SettingError
from drobench.registry import NeedsNotMet, SolverEntry, UnknownName, build_catalogue, load_catalogue
from drobench.registry.plugins import PluginContent


@pytest.fixture
def offer(plugin, source, solver):
    """Make a source that offers one solver of the given name."""

    def make(name: str, *, plugin_name: str, distribution: str, version: str = "1.0"):
        guest = plugin(drobench_solvers=[solver(name)])
        return source(guest, name=plugin_name, distribution=distribution, version=version)

    return make


@pytest.fixture
def catalogue(plugin, source, solver, problem, dataset):
    guest = plugin(
        drobench_solvers=[solver("gcivr"), solver("scgd")],
        drobench_problems=[problem("fairness", "groups", "binary_labels"), problem("ranking", "queries")],
        drobench_datasets=[dataset("plain"), dataset("adult", "binary_labels", "groups", "weights")],
    )
    return build_catalogue([source(guest, name="guest", distribution="stranger", version="2.1")])


def test_an_entry_comes_with_its_origin(catalogue):
    found = catalogue.solver("gcivr")
    assert found.entry.name == "gcivr"
    assert (found.plugin, found.distribution, found.version) == ("guest", "stranger", "2.1")
    assert catalogue.problem("ranking").entry.needs == {"queries"}
    assert catalogue.dataset("adult").entry.provides == {"binary_labels", "groups", "weights"}


def test_nothing_gives_an_empty_catalogue():
    empty = build_catalogue([])
    assert (dict(empty.solvers), dict(empty.problems), dict(empty.datasets)) == ({}, {}, {})
    assert (empty.troubles, empty.disabled) == ((), ())


def test_the_mappings_are_read_only_and_in_alphabetical_order(catalogue):
    assert list(catalogue.datasets) == ["adult", "plain"]
    for mapping in (catalogue.solvers, catalogue.problems, catalogue.datasets):
        with pytest.raises(TypeError):
            mapping["new"] = None


@pytest.mark.parametrize(
    ("find", "name", "parts"),
    [
        ("solver", "gcvir", ["no solver called 'gcvir'", "Did you mean 'gcivr'?", "Installed solvers: gcivr, scgd."]),
        ("problem", "fairnes", ["no problem called", "Did you mean 'fairness'?", "problems: fairness, ranking."]),
        ("dataset", "adlut", ["no dataset called", "Did you mean 'adult'?", "datasets: adult, plain."]),
    ],
)
def test_an_unknown_name_is_refused_with_a_hint_and_the_list(catalogue, find, name, parts):
    with pytest.raises(UnknownName) as caught:
        getattr(catalogue, find)(name)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert isinstance(caught.value, DrobenchError)


def test_an_unknown_name_far_from_all_gets_no_hint(catalogue):
    with pytest.raises(UnknownName) as caught:
        catalogue.solver("zzzzzz")
    assert "Did you mean" not in str(caught.value)
    assert "gcivr, scgd" in str(caught.value)


def test_an_unknown_name_in_an_empty_catalogue_says_so():
    with pytest.raises(UnknownName, match=r"There is no solver called 'a'\. No solver is installed\.$"):
        build_catalogue([]).solver("a")


def test_an_unknown_name_points_at_plugins_that_are_not_here(source, offer):
    def broken():
        raise ImportError("torch")

    quiet = offer("sought", plugin_name="quiet", distribution="b")
    catalogue = build_catalogue([source(broken, name="broken"), quiet], disabled={"quiet"})
    with pytest.raises(UnknownName) as caught:
        catalogue.solver("sought")
    assert "Plugins with troubles (see `drobench plugins`): broken." in str(caught.value)
    assert "Plugins left out by DROBENCH_DISABLE_PLUGINS: quiet." in str(caught.value)


def test_a_dataset_that_provides_what_is_needed_fits(catalogue):
    assert catalogue.check_fit("fairness", "adult") is None


def test_a_dataset_that_lacks_something_is_refused_naming_all(catalogue):
    with pytest.raises(NeedsNotMet) as caught:
        catalogue.check_fit("fairness", "plain")
    assert str(caught.value) == (
        "Problem 'fairness' needs binary_labels, groups, but dataset 'plain' does not provide binary_labels, groups. "
        "Installed datasets that would do: adult."
    )


def test_the_refusal_says_when_no_dataset_would_do(catalogue):
    with pytest.raises(NeedsNotMet, match=r"does not provide queries\. No installed dataset would do\."):
        catalogue.check_fit("ranking", "adult")


def test_a_fit_of_unknown_names_is_an_unknown_name(catalogue):
    with pytest.raises(UnknownName, match="no problem called 'fair'"):
        catalogue.check_fit("fair", "adult")
    with pytest.raises(UnknownName, match="no dataset called 'adlut'"):
        catalogue.check_fit("fairness", "adlut")


def every_order(*sources):
    return [list(order) for order in itertools.permutations(sources)]


@pytest.mark.parametrize("own_name", ["drobench", "Drobench"])
def test_a_stranger_cannot_take_a_name_of_ours(offer, own_name):
    # "aardvark" sorts before "drobench": precedence, not the alphabet, decides.
    ours = offer("gcivr", plugin_name="z_plugin", distribution=own_name, version="0.1")
    stranger = offer("gcivr", plugin_name="a_plugin", distribution="aardvark", version="9")
    for order in every_order(ours, stranger):
        catalogue = build_catalogue(order)
        assert catalogue.solver("gcivr").distribution == own_name
        (trouble,) = catalogue.troubles
        assert (trouble.plugin, trouble.distribution) == ("a_plugin", "aardvark")
        assert "solver 'gcivr'" in trouble.message
        assert f"{own_name} 0.1 (plugin 'z_plugin')" in trouble.message
        assert "aardvark 9 (plugin 'a_plugin')" in trouble.message


def test_between_strangers_the_first_by_distribution_and_plugin_keeps_the_name(offer):
    first = offer("mine", plugin_name="y", distribution="alpha")
    second = offer("mine", plugin_name="z", distribution="alpha")
    third = offer("mine", plugin_name="a", distribution="beta")
    for order in every_order(first, second, third):
        catalogue = build_catalogue(order)
        assert (catalogue.solver("mine").distribution, catalogue.solver("mine").plugin) == ("alpha", "y")
        assert [(trouble.distribution, trouble.plugin) for trouble in catalogue.troubles] == [
            ("alpha", "z"),
            ("beta", "a"),
        ]


def test_a_name_twice_in_one_plugin_is_reported(plugin, source, solver):
    first, second = solver("twin", summary="First."), solver("twin", summary="Second.")
    catalogue = build_catalogue([source(plugin(drobench_solvers=[first, second]))])
    assert catalogue.solver("twin").entry is first
    assert len(catalogue.troubles) == 1


def test_the_same_name_in_two_kinds_is_no_trouble(plugin, source, solver, problem):
    catalogue = build_catalogue([source(plugin(drobench_solvers=[solver("x")], drobench_problems=[problem("x")]))])
    assert catalogue.troubles == ()
    assert catalogue.solver("x").entry.kind == "solver"
    assert catalogue.problem("x").entry.kind == "problem"


def test_two_plugins_of_the_same_name_are_both_read(offer):
    sources = [offer("a", plugin_name="hooks", distribution="x"), offer("b", plugin_name="hooks", distribution="y")]
    catalogue = build_catalogue(sources)
    assert list(catalogue.solvers) == ["a", "b"]
    assert catalogue.troubles == ()


def test_a_subclass_that_renames_its_kind_is_still_a_solver(plugin, source, solver):
    class Special(SolverEntry):
        kind = "special"

    common = solver("plain")
    special = Special(name="own", summary="S.", config=common.config, factory=dict, accepts=common.accepts)
    catalogue = build_catalogue([source(plugin(drobench_solvers=[special]))])
    assert catalogue.solver("own").entry is special


def test_a_disabled_plugin_is_not_even_loaded(source, offer, monkeypatch):
    def load():
        pytest.fail("loaded")

    monkeypatch.setenv("DROBENCH_DISABLE_PLUGINS", " quiet ,, absent")
    catalogue = build_catalogue([source(load, name="quiet"), offer("a", plugin_name="loud", distribution="b")])
    assert catalogue.disabled == ("quiet",)
    assert catalogue.troubles == ()
    assert list(catalogue.solvers) == ["a"]


def test_an_argument_wins_over_the_environment(offer, monkeypatch):
    monkeypatch.setenv("DROBENCH_DISABLE_PLUGINS", "loud")
    monkeypatch.setenv("DROBENCH_PLUGIN_TIMEOUT", "nonsense")
    catalogue = build_catalogue([offer("a", plugin_name="loud", distribution="b")], disabled=(), timeout=5)
    assert list(catalogue.solvers) == ["a"]
    assert catalogue.disabled == ()


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_an_impossible_time_limit_is_refused(monkeypatch, text):
    monkeypatch.setenv("DROBENCH_PLUGIN_TIMEOUT", text)
    with pytest.raises(SettingError, match=r"at least 0.*DROBENCH_PLUGIN_TIMEOUT"):
        build_catalogue([])


@pytest.mark.parametrize(("text", "seconds"), [(None, 30.0), ("", 30.0), ("0", 0.0), (" 2.5 ", 2.5)])
def test_the_time_limit_of_the_environment_reaches_the_plugins(monkeypatch, source, plugin, text, seconds):
    if text is not None:
        monkeypatch.setenv("DROBENCH_PLUGIN_TIMEOUT", text)
    seen = []
    monkeypatch.setattr(
        "drobench.registry.catalogue.read_plugin", lambda _source, limit: PluginContent(seen.append(limit) or [], [], 1)
    )
    build_catalogue([source(plugin())])
    assert seen == [seconds]


def test_the_installed_plugins_are_read_once(monkeypatch):
    calls = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: calls.append(group) or [])
    assert load_catalogue() is load_catalogue()
    assert calls == ["drobench"]
    load_catalogue.cache_clear()
    load_catalogue()
    assert calls == ["drobench", "drobench"]
