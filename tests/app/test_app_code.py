"""Which files take part in a run: all that shape its result, and no others."""

import sys
from pathlib import Path

import pytest
from app_samples import SMALL, forget_module, write_package

from drobench.app.cell import run_cell
from drobench.app.code import FRAMEWORK, code_of, framework_files, plugin_files, plugins_of
from drobench.app.freshness import why_stale
from drobench.app.prepare import prepare
from drobench.registry import load_catalogue

PLUGIN = """
from dataclasses import dataclass
from drobench import SolverEntry, hookimpl
from drobench.objective.forms import FiniteSum
{imports}

@dataclass
class Config:
    rate: float = 1.0

@hookimpl
def drobench_solvers():
    return [SolverEntry(name="visitor", summary="Visits.", config=Config, factory=Visitor, accepts=(FiniteSum,))]
"""


def checksum(files):
    return sorted(files.items())


def test_the_rooms_that_compute_are_the_framework():
    rooms = {Path(name).parts[1] for name in framework_files()}
    assert rooms == {"objective", "data", "problem", "solver", "reformulation", "training", "app"}
    assert "drobench/app/assemble.py" in framework_files()
    assert not any("report" in name or "commands" in name for name in framework_files())


def test_solvers_do_not_take_part_in_each_others_runs(catalogue):
    ours = plugin_files(catalogue.solver("gcivr"))
    assert any(name.endswith("gcivr:gcivr.py") for name in ours)
    assert not any("scgd" in name for name in ours)


def test_pieces_take_part(catalogue):
    assert any("term_table" in name for name in plugin_files(catalogue.solver("c_saga")))
    assert any(name.endswith(".gcivr:gcivr.py") for name in plugin_files(catalogue.solver("dist_gcivr")))


def test_runs_of_one_distribution_share_a_checksum_of_all_parts(configure, catalogue):
    first, other = (code_of(configure(f"solver={name}"), catalogue) for name in ("gcivr", "scgd"))
    assert set(first.distributions) == set(first.versions) == {"drobench"}
    assert first.distributions != other.distributions
    same = [part for part in first.parts if first.parts[part] == other.parts[part]]
    assert same == [FRAMEWORK, "dataset", "problem", "model", "loss"]


@pytest.mark.parametrize(
    "words",
    [
        ("solver=c_saga", "budget.passes=1"),
        ("solver=heavily_constrained", "problem=intersectional_fairness", "dataset=communities_twin"),
    ],
)
def test_whatever_a_run_executes_is_known_beforehand(configure, catalogue, words):
    base = ("budget.passes=null", "budget.steps=2") if len(words) > 2 else SMALL
    config, seen = configure(*words, base=base), set()
    sys.setprofile(lambda frame, event, argument: seen.add(frame.f_globals.get("__name__", "")))
    try:
        record = run_cell(config, catalogue)
    finally:
        sys.setprofile(None)
    assert record.iterates.last is not None
    chosen = (catalogue.solver(config.solver.name), catalogue.problem(config.problem.name))
    parts = plugins_of(config, catalogue).values()
    known = {name.split(":")[0] for part in parts for name in plugin_files(part)}
    # The optimum, which references find, is certified by itself.
    references = {name.split(":")[0] for solver in ("exact_convex", "exact_constrained")
                  for name in plugin_files(catalogue.solver(solver))}  # fmt: skip
    ours = {name for name in seen if name.startswith("drobench_plugins.")}
    assert chosen[0].entry.factory.__module__ in ours
    assert ours - references <= known


class TestStrangers:
    @pytest.fixture
    def package(self, tmp_path, monkeypatch):
        """Install a package of several modules; gives a function that reads it anew and returns its files."""
        site = write_package(
            tmp_path / "site", "visiting_plugin", PLUGIN.format(imports="from visiting.method import Visitor")
        )
        folder = site / "visiting"
        (folder / "parts").mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "parts" / "__init__.py").write_text("")
        (folder / "method.py").write_text("from .parts import inner\nclass Visitor:\n    pass\n")
        (folder / "parts" / "inner.py").write_text("from .. import base\n")
        (folder / "base.py").write_text("VALUE = 1\n")
        (folder / "unrelated.py").write_text("VALUE = 2\n")
        monkeypatch.syspath_prepend(str(site))
        names = (
            "visiting_plugin",
            "visiting",
            "visiting.method",
            "visiting.parts",
            "visiting.parts.inner",
            "visiting.base",
        )

        def read():
            for name in names:
                forget_module(name)
            load_catalogue.cache_clear()
            return plugin_files(load_catalogue().solver("visitor"))

        yield folder, read
        for name in names:
            forget_module(name)
        load_catalogue.cache_clear()

    def test_imports_are_followed_however_far_and_no_further(self, package):
        _, read = package
        assert {name.split(":")[0] for name in read()} == {
            "visiting", "visiting.method", "visiting.parts", "visiting.parts.inner", "visiting.base", "visiting_plugin",
        }  # fmt: skip

    @pytest.mark.parametrize("name", ["method.py", "parts/inner.py", "base.py"])
    def test_an_edit_of_what_takes_part_is_seen(self, package, name):
        folder, read = package
        before = checksum(read())
        (folder / name).write_text((folder / name).read_text() + "# edited\n")
        assert checksum(read()) != before

    def test_an_edit_of_what_does_not_take_part_is_not(self, package):
        folder, read = package
        before = checksum(read())
        (folder / "unrelated.py").write_text("VALUE = 3\n")
        assert checksum(read()) == before

    def test_an_edit_after_the_import_is_not_what_runs(self, package):
        folder, read = package
        before = checksum(read())
        (folder / "base.py").write_text("VALUE = 9\n")
        assert checksum(plugin_files(load_catalogue().solver("visitor"))) == before

    def test_imports_by_name_make_the_whole_package_take_part(self, package):
        folder, read = package
        (folder / "base.py").write_text(
            "import importlib\nVALUE = importlib.import_module('visiting.unrelated').VALUE\n"
        )
        found = read()
        assert "visiting/unrelated.py" in found
        assert checksum(found) == checksum(read())


WRAPPED = """
from drobench import ProblemEntry, hookimpl
from drobench.objective.forms import NativeForm
from drobench_plugins.problems.divergence_classification import DivergenceClassification, KLClassificationConfig


class Wrapped(NativeForm):
    samples = value = smooth_gradient = convex = None

    def __init__(self, risk):
        self.risk, self.regularizer, self.dimension, self.samples = risk, risk.regularizer, risk.dimension, risk.samples
        self.value, self.smooth_gradient, self.convex = risk.value, risk.smooth_gradient, risk.convex


class Problem(DivergenceClassification):
    def __init__(self, *given):
        super().__init__(*given)
        self.risk, self.form = self.form, Wrapped(self.form)

    def worst_case(self, losses):
        return self.risk.ambiguity.worst_case(losses)


@hookimpl
def drobench_problems():
    return [ProblemEntry(name="wrapped", summary="Wrapped.", config=KLClassificationConfig, factory=Problem)]
"""

UNWRAP = """
from drobench import hookimpl
from drobench.objective.forms import RobustRisk
from drobench.reformulation.reformulation import Reformulation
from drobench.registry import ReformulationEntry
from wrapped_problem import Wrapped


class Unwrap(Reformulation):
    name = "unwrap"
    produces = RobustRisk

    def __init__(self, config):
        pass

    def accepts(self, form):
        return isinstance(form, Wrapped)

    def apply(self, form, options):
        return form.risk


@hookimpl
def drobench_reformulations():
    return [ReformulationEntry(name="unwrap", summary="Unwraps.", factory=Unwrap)]
"""


class TestSteps:
    @pytest.fixture
    def installed(self, tmp_path, monkeypatch):
        """Install a problem of a form of its own, and in another package the step from there to ours."""
        site = write_package(tmp_path / "site", "wrapped_problem", WRAPPED, "problem-package")
        write_package(site, "unwrapping_step", UNWRAP, "step-package")
        monkeypatch.syspath_prepend(str(site))

        def forget():
            for name in ("wrapped_problem", "unwrapping_step"):
                forget_module(name)
            load_catalogue.cache_clear()

        def read():
            forget()
            return load_catalogue()

        yield site / "unwrapping_step.py", read
        forget()

    def test_a_step_on_the_route_takes_part_and_one_beside_it_does_not(self, installed, configure):
        catalogue = installed[1]()
        words = ("problem=wrapped", "solver=prox_gradient")
        record = run_cell(configure(*words, base=SMALL, using=catalogue), catalogue)
        assert record.others["route"] == ["unwrap", "kl_penalty"], record.reason
        assert set(record.code) == {"drobench", "problem-package", "step-package"}
        other = run_cell(configure("solver=prox_gradient", base=SMALL, using=catalogue), catalogue)
        assert set(other.code) == {"drobench"}

    def test_an_edit_of_the_step_makes_the_run_stale(self, installed, configure):
        file, read = installed
        catalogue = read()
        config = configure("problem=wrapped", "solver=prox_gradient", base=SMALL, using=catalogue)
        record = run_cell(config, catalogue)
        assert run_cell(config, catalogue).started_at == record.started_at
        file.write_text(file.read_text() + "# edited\n")
        catalogue = read()
        stale = why_stale(record, prepare(config, catalogue).code_along(record.others["route"]))
        assert stale == "the code of reformulation 'unwrap' has changed since"
