"""`drobench new`: what it writes works as it is, outside the repository."""

import ast
import json
import subprocess
import sys
import tomllib

import pytest
import yaml

from drobench.app.cli import main
from drobench.app.new_package import KINDS, render


@pytest.fixture
def new(capsys):
    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["new", *map(str, words)])
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """One package of each kind."""
    folder = tmp_path_factory.mktemp("generated")
    for kind in KINDS:
        with pytest.raises(SystemExit) as ended:
            main(["new", kind, f"my_{kind}", "--output", str(folder)])
        assert not ended.value.code
    return folder


@pytest.fixture(scope="module")
def environment(generated, install_packages):
    return install_packages(*(generated / f"my_{kind}" for kind in KINDS))


# A test suite within a test, on a machine that may be busy.
@pytest.mark.timeout(900)
@pytest.mark.process
def test_the_generated_tests_pass_outside_the_repository(environment, generated):
    folders = [generated / f"my_{kind}" / "tests" for kind in KINDS]
    shown = environment.call("-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *folders)
    summary = shown.splitlines()[-1]
    assert " passed" in summary, shown
    for bad in ("failed", "error", "xfailed"):
        assert bad not in summary, shown
    # The checks did run: an empty class of checks would pass as well.
    assert int(summary.split(" passed")[0].split()[-1]) >= 20, summary


@pytest.mark.process
def test_a_run_with_all_of_them_works_outside_the_repository(environment):
    words = ("solver=my_solver", "problem=my_problem", "dataset=my_dataset", "problem.l2=0.1")
    environment.drobench("run", *words, "model=my_model", "budget.passes=2", "results=network")
    (record,) = environment.folder.glob("network/*/record.json")
    found = json.loads(record.read_text())
    assert found["model"] == {"name": "my_model", "width": 32, "depth": 2}
    assert found["asked"]["plugins"]["model"] == ["my-model", 1]
    assert set(found["code"]) >= {"my-model", "drobench"}
    lossy = ("problem=kl_regression", "dataset=diabetes", "problem.loss=my_loss", "problem.loss_settings.width=0.5")
    environment.drobench("run", "solver=newton", *lossy, "problem.l2=0.1", "budget.passes=40", "results=lossy")
    (record,) = environment.folder.glob("lossy/*/record.json")
    found = json.loads(record.read_text())
    assert found["asked"]["plugins"]["loss"] == ["my-loss", 1]
    assert 0 <= found["iterates"]["last"]["gap"] < 1e-6
    environment.drobench("run", *words, "budget.passes=60")
    (record,) = environment.folder.glob("results/*/record.json")
    found = json.loads(record.read_text())
    described = ("solver", "problem", "dataset")
    assert {kind: found[kind]["distribution"] for kind in described} == {kind: f"my-{kind}" for kind in described}
    assert {found[kind]["version"] for kind in described} == {"0.1.0"}
    assert found["optimum"] is not None
    assert 0 <= found["iterates"]["last"]["gap"] < 1e-3


@pytest.mark.process
def test_plugins_are_listed_with_package_version_and_api_and_one_can_be_left_out_by_name(environment):
    shown = environment.drobench("plugins", DROBENCH_DISABLE_PLUGINS="my_problem")
    lines = [line.split() for line in shown.splitlines()]
    for kind in ("solver", "dataset"):
        assert [f"my_{kind}", f"my-{kind}", "0.1.0", "1", "1"] in lines
    assert "disabled: my_problem" in shown
    assert "my-problem" not in shown


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["my_{kind}", "x", "tensor", "composite", "a_rather_long_name_2"])
def test_every_file_is_well_formed_whatever_the_name(kind, name):
    files = render(kind, name := name.format(kind=kind))
    for path, text in files.items():
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert "{{" not in text.replace("${{ matrix.python }}", "")
        if path.endswith(".py"):
            tree = ast.parse(text)
            assert ast.get_docstring(tree)
            bound = [name for node in ast.walk(tree) for name in _bound(node)]
            assert len(bound) == len(set(bound)), f"{path} binds a name twice: {sorted(bound)}"
    project = tomllib.loads(files["pyproject.toml"])
    assert project["project"]["entry-points"]["drobench"] == {name: f"{name}.{kind}"}
    assert f"src/{name}/{kind}.py" in files
    steps = yaml.safe_load(files[".github/workflows/tests.yml"])["jobs"]["tests"]["steps"]
    assert steps[-1] == {"run": "pytest"}


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom | ast.Import):
        return [alias.asname or alias.name for alias in node.names]
    return [node.name] if isinstance(node, ast.ClassDef) else []


@pytest.mark.process
def test_the_packages_are_clean_for_their_own_linter(generated):
    for kind in KINDS:
        for words in (["check", "--select", "E,F,I,B,UP,SIM,RET"], ["format", "--check"]):
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *words, "--no-cache", "."],
                cwd=generated / f"my_{kind}",
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout


def test_nothing_is_overwritten(new, tmp_path):
    assert new("solver", "mine", "--output", tmp_path)[0] == 0
    file = tmp_path / "mine" / "README.md"
    file.write_text("changed")
    code, _, error = new("problem", "mine", "--output", tmp_path)
    assert code == 2
    assert f"{tmp_path / 'mine'} exists, and nothing is overwritten" in error
    assert file.read_text() == "changed"


def test_a_folder_that_cannot_be_written_is_named(new, tmp_path):
    (tmp_path / "file").touch()
    code, _, error = new("solver", "mine", "--output", tmp_path / "file")
    assert code == 2
    assert f"{tmp_path / 'file' / 'mine'} cannot be written" in error


@pytest.mark.process
def test_a_package_that_is_installed_can_be_made_again_elsewhere(environment, tmp_path):
    environment.drobench("new", "solver", "my_solver", "--output", tmp_path)
    assert (tmp_path / "my_solver" / "pyproject.toml").is_file()


def test_the_folder_is_made_and_the_next_steps_are_told(new, tmp_path):
    code, shown, _ = new("dataset", "mine", "--output", tmp_path / "a" / "b")
    assert code == 0
    assert (tmp_path / "a" / "b" / "mine" / "src" / "mine" / "dataset.py").is_file()
    assert "pip install -e '.[test]'" in shown
    assert "drobench run dataset=mine" in shown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("My_Solver", "NAME must be a name of lower-case letters"),
        ("2fast", "found '2fast'"),
        ("my-solver", "found 'my-solver'"),
        ("../mine", "found '../mine'"),
        ("", "found ''"),
        ("lambda", "found 'lambda', a word of Python"),
        ("json", "'json' is taken by Python or drobench"),
        ("solver", "'solver' is taken by Python or drobench"),
        ("torch", "'torch' is one that is installed"),
        ("gcivr", "There is a solver called 'gcivr' already, in drobench"),
    ],
)
def test_a_name_that_will_not_do_is_refused(new, tmp_path, name, text):
    code, _, error = new("solver", name, "--output", tmp_path)
    assert code == 2
    assert text in error
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_another_kind_is_free(new, tmp_path):
    assert new("dataset", "gcivr", "--output", tmp_path)[0] == 0


def test_an_unknown_kind_is_refused(new, tmp_path):
    code, _, error = new("metric", "mine", "--output", tmp_path)
    assert code == 2
    assert "invalid choice: 'metric'" in error
