"""Boards that mix code say so."""

from dataclasses import replace

import pytest
from result_samples import make_record

from drobench.results.comparison.code_note import code_note
from drobench.results.comparison.grouping import Across, variant_key

PARTS = {"framework": "f", "problem": "p", "dataset": "d", "solver": "s"}


def made_by(name="alpha", version="0.1.0", seed=0, **parts):
    record = make_record(name, seed)
    component = replace(record.solver, version=version)
    return replace(record, solver=component, code_parts=PARTS | parts, code={"drobench": repr(parts)})


def test_one_code_for_all_is_not_worth_a_word():
    assert code_note({"alpha": [made_by(), made_by(seed=1)]}) is None


def test_solvers_have_code_of_their_own():
    assert code_note({"alpha": [made_by()], "beta": [made_by("beta", solver="t")]}) is None


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ("framework", "drobench itself"),
        ("problem", "problem robust"),
        ("dataset", "dataset tiny"),
        ("solver", "solver alpha"),
    ],
)
def test_the_part_that_differs_is_named(part, named):
    note = code_note({"alpha": [made_by(), made_by(seed=1, **{part: "other"})]})
    assert f"made by the same code: {named} (2 states" in note


def test_versions_are_named():
    note = code_note({"alpha": [made_by(), made_by(version="0.1.1", seed=1, solver="t")]})
    assert "solver alpha (2 states of 0.1.0, 0.1.1)" in note


def test_of_older_records_the_version_is_all_that_is_known():
    older = [make_record(seed=seed) for seed in range(2)]
    assert code_note({"alpha": older}) is None
    other = replace(older[1], solver=replace(older[1].solver, version="0.2.0"))
    assert "solver alpha" in code_note({"alpha": [older[0], other]})


def test_a_patch_is_no_other_solver_and_a_minor_version_is():
    first, patched, later = (made_by(version=version) for version in ("0.1.0", "0.1.1", "0.2.0"))
    keys = [variant_key(record, Across()) for record in (first, patched, later)]
    assert keys[0] == keys[1] != keys[2]
