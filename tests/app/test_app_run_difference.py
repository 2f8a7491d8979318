"""In what two stored runs differ."""

from drobench.app.run_difference import differences_of
from drobench.results.store import ResultStore


def named(found, *, minor=None):
    return {item.name: (item.first, item.second) for item in found if minor is None or item.minor is minor}


def test_a_run_does_not_differ_from_itself(finished):
    folder, runs = finished
    assert differences_of(ResultStore(folder), runs["scgd"], runs["scgd"]) == []


def test_what_differs_has_both_values_and_its_section(finished):
    folder, runs = finished
    first, second = runs["scgd"], runs["gcivr"]
    found = differences_of(ResultStore(folder), first, second)
    everything = named(found)
    assert everything["solver.name"] == ("scgd", "gcivr")
    assert everything["iterates.last.objective"] == (first.iterates.last.objective, second.iterates.last.objective)
    sections = {item.name: item.section for item in found}
    assert sections["solver.name"] == "settings"
    assert sections["iterates.last.objective"] == "results"
    assert sections["oracle.inner_values"] == "costs"
    assert sections["code_parts.solver"] == "code and machine"
    # They were run on the same data, with the same budget, and where they were kept does not matter.
    assert not [name for name in everything if name.startswith(("dataset", "budget", "results", "problem"))]


def test_settings_of_another_solver_and_further_metrics_are_minor(finished):
    folder, runs = finished
    found = differences_of(ResultStore(folder), runs["scgd"], runs["gcivr"])
    assert {"solver.delay", "code_parts.solver"} <= set(named(found, minor=True))
    assert {"solver.name", "iterates.last.objective"} <= set(named(found, minor=False))
    assert not [name for name in named(found, minor=False) if ".extra." in name]


def test_settings_of_the_same_solver_are_not_minor(catalogue, finished):
    from app_samples import configured

    from drobench.app.cell import run_cell

    folder, _ = finished
    one, other = (
        run_cell(configured(catalogue, folder, "solver=scgd", f"solver.batch={n}"), catalogue) for n in (3, 4)
    )
    found = differences_of(ResultStore(folder), one, other)
    assert named(found, minor=False)["solver.batch"] == (3, 4)
    assert "solver.name" not in named(found)
