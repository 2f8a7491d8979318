"""Sweep files: read, expanded, joined, and refused by name."""

import pytest
from app_samples import SMALL

from drobench.app.sweep_file import find_sweep, load_sweep
from drobench.errors import DrobenchError


@pytest.mark.parametrize(
    ("text", "mentioned"),
    [
        ("grd: {seed: [1]}", "unknown key 'grd'. Did you mean 'grid'?"),
        ("parts: [{gird: {seed: [1]}}]", "unknown key 'gird'. Did you mean 'grid'?"),
        ("grid: {seed: 3}", "'seed' must list its values; found 3"),
        ("grid: {seed: []}", "'seed' must list its values; found []"),
        ("grid: {seed: {a: 1}}", "'seed' must list its values"),
        ("[1, 2]", "must be a mapping"),
        ("grid: {seed: ['${nothing}']}", "nothing"),
    ],
)
def test_a_mistake_in_a_sweep_file_is_named_with_the_file(sweep_file, text, mentioned):
    file = sweep_file(text, head="")
    with pytest.raises(DrobenchError) as refusal:
        load_sweep(file)
    assert mentioned in str(refusal.value)
    assert str(file) in str(refusal.value)


def test_a_mapping_in_a_grid_sets_several_keys_together(sweep_file):
    text = "grid: {seed: [0, 1], method: [{solver: gcivr, solver.step_scale: 2.0}, {solver: scgd}, {}]}"
    cells = load_sweep(sweep_file(text, head="overrides: [solver.batch=8]\n")).cells
    assert len(cells) == 6
    assert [sorted(cell) for cell in (cells[0], cells[4], cells[5])] == [
        ["seed=0", "solver.batch=8", "solver.step_scale=2.0", "solver=gcivr"],
        ["seed=1", "solver.batch=8", "solver=scgd"],
        ["seed=1", "solver.batch=8"],
    ]


@pytest.mark.parametrize("text", ["grid: [", "a: b: c", "\tgrid: 1"])
def test_a_file_that_is_no_yaml_is_refused_with_the_place(sweep_file, text):
    file = sweep_file(text, head="")
    with pytest.raises(DrobenchError, match="line 1") as refusal:
        load_sweep(file)
    assert str(file) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("overrides: dataset=synthetic", "overrides"),
        ("overrides: [3]", "overrides"),
        ("overrides: {dataset: synthetic}", "overrides"),
        ("grid: [1]", "grid"),
        ("grid: seed", "grid"),
        ("parts: [1]", "parts"),
        ("parts: {grid: {seed: [1]}}", "parts"),
        ("parts: [{overrides: seed=1}]", "overrides"),
        ("parts: [{grid: [1]}]", "grid"),
        ("timeout: soon", "timeout"),
        ("timeout: -1", "timeout"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_naming_its_key(sweep_file, text, key):
    file = sweep_file(text, head="")
    with pytest.raises(DrobenchError, match=key) as refusal:
        load_sweep(file)
    assert str(file) in str(refusal.value)


def test_an_unreadable_file_is_refused(tmp_path):
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00grid")
    with pytest.raises(DrobenchError, match=r"binary\.yaml"):
        load_sweep(file)


def test_a_sweep_is_found_by_name_or_path(tmp_path):
    assert find_sweep("quickstart").name == "quickstart.yaml"
    file = tmp_path / "mine.yml"
    file.write_text("grid: {seed: [1]}\n")
    assert find_sweep(str(file)) == file


def test_an_unknown_sweep_is_refused_with_the_nearest():
    with pytest.raises(DrobenchError, match=r"no sweep called 'quikstart'\. Did you mean 'quickstart'") as refusal:
        find_sweep("quikstart")
    assert "path of a YAML file" in str(refusal.value)
    with pytest.raises(DrobenchError, match=r"no sweep file 'nowhere/mine\.yaml'"):
        find_sweep("nowhere/mine.yaml")


def test_the_grid_is_the_product_of_its_values(sweep_file):
    sweep = load_sweep(
        sweep_file("title: T\ndescription: D\ntimeout: 7\ngrid: {solver: [gcivr, scgd], seed: [0, 1, 2]}")
    )
    assert (sweep.title, sweep.description, sweep.timeout) == ("T", "D", 7)
    chosen = [tuple(word for word in words if word.startswith(("solver=", "seed="))) for words in sweep.cells]
    assert len(set(chosen)) == 6
    assert ("solver=scgd", "seed=2") in chosen
    assert all(set(words) >= set(SMALL) for words in sweep.cells)


def test_without_title_a_sweep_is_called_after_its_file(sweep_file):
    sweep = load_sweep(sweep_file("grid: {seed: [0]}"))
    assert (sweep.title, sweep.description, sweep.timeout) == ("tiny", "", None)


def test_parts_are_joined_and_may_change_the_grid(sweep_file):
    text = """
    grid: {seed: [0, 1]}
    parts:
      - {overrides: [solver=gcivr], grid: {solver.batch: [2, 4]}}
      - {overrides: [solver=scgd]}
      - {overrides: [solver=unconstrained], grid: {seed: [7]}}
    """
    cells = load_sweep(sweep_file(text.replace("\n    ", "\n"))).cells
    assert len(cells) == 2 * 2 + 2 + 1
    assert sum("solver=gcivr" in words for words in cells) == 4
    assert [words[-1] for words in cells if "solver=gcivr" in words] == ["solver.batch=2", "solver.batch=4"] * 2
    assert [words for words in cells if "seed=7" in words] == [
        words for words in cells if "solver=unconstrained" in words
    ]


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


@pytest.mark.parametrize("text", ["", "title: T\n", "grid: {}\n", "overrides: []\nparts: []\ngrid: null\n"])
def test_an_empty_file_is_no_sweep_of_the_default_run(sweep_file, text):
    with pytest.raises(DrobenchError, match=r"is empty: it needs `grid`|must be a mapping"):
        load_sweep(sweep_file(text, head=""))


@pytest.mark.parametrize(
    "files",
    [
        {"a": "include: [HERE/b.yaml]", "b": "include: [HERE/a.yaml]"},
        {"a": "include: [HERE/b.yaml]", "b": "include: [HERE/c.yaml]", "c": "include: [HERE/b.yaml]"},
        {"c": "include: [HERE/c.yaml]"},
    ],
)
def test_sweeps_that_include_each_other_are_refused(written, files):
    with pytest.raises(DrobenchError, match=r"includes itself: \w\.yaml -> .*yaml"):
        load_sweep(written(**files))


def test_a_sweep_may_be_included_twice(written):
    text = "include: [HERE/first.yaml, HERE/both.yaml]\n"
    sweep = load_sweep(written(first=FIRST, both="include: [HERE/first.yaml, HERE/first.yaml]\n", whole=text))
    assert len(sweep.cells) == 4


def test_sweeps_that_multiply_are_read_once_each(written):
    files = {f"s{n}": f"include: [{', '.join([f'HERE/s{n - 1}.yaml'] * 10)}]\n" for n in range(1, 30)}
    assert len(load_sweep(written(s0=FIRST, **files)).cells) == 4


def test_a_grid_without_end_is_refused_before_it_is_made(sweep_file):
    grid = ", ".join(f"k{n}: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]" for n in range(12))
    with pytest.raises(DrobenchError, match="more than 100000 cells"):
        load_sweep(sweep_file(f"grid: {{{grid}}}"))


def test_aliases_and_interpolations_that_multiply_are_refused(sweep_file):
    bomb = "".join(f"a{n}: &a{n} [*a{n - 1},*a{n - 1}]\n" for n in range(1, 40))
    with pytest.raises(DrobenchError, match="stands for more than 100000 values"):
        load_sweep(sweep_file(f"a0: &a0 [1,1]\n{bomb}", head=""))
    chain = "title: x\n" + "".join(f"k{n}: '${{title}}${{title}}'\n" for n in range(20))
    with pytest.raises(DrobenchError, match="at most 20 interpolations; found 40"):
        load_sweep(sweep_file(chain, head=""))
    many = "overrides: [" + ", ".join(f"'k{n}=\\${{seed}}'" for n in range(50)) + "]"
    assert len(load_sweep(sweep_file(many, head="")).cells[0]) == 50


def test_values_of_the_file_can_be_referred_to_within_it(sweep_file):
    sweep = load_sweep(sweep_file("title: gcivr\ngrid: {solver: ['${title}'], seed: [0]}", head=""))
    assert sweep.cells == [["solver=gcivr", "seed=0"]]


def test_a_huge_file_is_not_read(sweep_file):
    with pytest.raises(DrobenchError, match="at most 262144 bytes; found"):
        load_sweep(sweep_file("# " + "x" * 300_000, head=""))


@pytest.mark.parametrize(
    "text", ["grid: {budget: [40]}", "overrides: ['solver=1']", "grid: {solver: [null, true, [gcivr]]}"]
)
def test_a_group_in_a_sweep_is_chosen_by_its_name(planned, text):
    with pytest.raises(DrobenchError, match="is chosen by its name"):
        planned(text, head="")


def test_a_sweep_does_not_rename_a_plugin(planned):
    with pytest.raises(DrobenchError, match="`problem=cvar_classification` is meant"):
        planned("grid: {problem.name: [cvar_classification]}")
