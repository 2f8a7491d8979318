"""Sweeps that consist of other sweeps."""

import pytest

from drobench.app.sweep_file import find_sweep, load_sweep
from drobench.errors import DrobenchError


@pytest.fixture
def written(tmp_path):
    """Write sweep files and return the path of the last."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / f"{name}.yaml"
            path.write_text(text.replace("HERE", str(tmp_path)))
        return path

    return write


FIRST = "overrides: [problem=kl_classification]\ngrid: {dataset.seed: [0, 1], solver: [gcivr, scgd]}\ntimeout: 5\n"
SECOND = "overrides: [solver=unconstrained]\n"


def test_the_cells_of_all_are_joined_in_their_order(written):
    sweep = load_sweep(written(first=FIRST, second=SECOND, both="include: [HERE/first.yaml, HERE/second.yaml]\n"))
    assert len(sweep.cells) == 5
    assert sweep.cells[0] == ["problem=kl_classification", "solver=gcivr", "dataset.seed=0"]
    assert sweep.cells[-1] == ["solver=unconstrained"]
    assert sweep.timeout == 5


def test_an_override_replaces_and_cells_that_become_equal_are_one(written):
    text = "include: [HERE/first.yaml]\noverrides: [dataset.seed=7, budget.steps=3]\ntimeout: 9\n"
    sweep = load_sweep(written(first=FIRST, small=text))
    assert sweep.cells == [
        ["problem=kl_classification", f"solver={solver}", "dataset.seed=7", "budget.steps=3"]
        for solver in ("gcivr", "scgd")
    ]
    assert sweep.timeout == 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("include: HERE/first.yaml\n", "include must list names"),
        ("include: []\n", "include must list names"),
        ("include: [HERE/first.yaml]\ngrid: {seed: [0]}\n", "leaves no room for grid"),
        ("include: [HERE/bad.yaml]\n", "includes itself"),
        ("include: [no_such_sweep]\n", "no sweep called 'no_such_sweep'"),
    ],
)
def test_what_makes_no_sense_is_refused(written, text, message):
    with pytest.raises(DrobenchError, match=message):
        load_sweep(written(first=FIRST, bad=text))


def test_the_figure_is_its_three_rows():
    rows = [load_sweep(find_sweep(f"paper_{row}")).cells for row in ("noisy_groups", "intersectional", "ranking")]
    assert load_sweep(find_sweep("paper_figure1")).cells == [cell for cells in rows for cell in cells]


@pytest.mark.parametrize("row", ["noisy_groups", "intersectional", "ranking"])
def test_the_small_rows_have_one_cell_for_each_method_and_need_no_network(row):
    cells = load_sweep(find_sweep(f"smoke_{row}")).cells
    assert [next(word for word in cell if word.startswith("solver=")) for cell in cells] == [
        "solver=gcivr",
        "solver=heavily_constrained",
        "solver=unconstrained",
    ]
    assert all(any(word.startswith("dataset=") and word.endswith("_twin") for word in cell) for cell in cells)
