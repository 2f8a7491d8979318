"""Every program of benchmarks/ runs in its small form and prints the rows that its table should have."""

import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import benchmarks
from benchmarks.programs import programs
from drobench.app.config import data_dir

ROOT = Path(benchmarks.__file__).parents[1]
NAMES = [program.name for program in programs()]


@dataclass(frozen=True)
class Case:
    """A command line, and what must be found in its output, each in a line of its own and in this order.

    Attributes:
        rows: Regular expressions.
        words: After the program; `{picture}` becomes a file that must be there in the end.
        sweep: The small sweep whose results come first among the words; none: the program reads no runs.
        code: The exit code.
    """

    rows: tuple[str, ...]
    words: tuple[str, ...] = ("--small",)
    sweep: str | None = None
    code: int = 0


# Pictures are drawn by a package that drobench does not need.
PICTURE = ("--picture", "{picture}") if find_spec("matplotlib") is not None else ()
CASES = {
    "benchmarks.faults": [
        Case(
            (
                r"^\| scenario \| what is done \|",
                r"^\| kill_points \| .* \| \d+ \| 0 \|",
                r"^\| damage \| .* \| 0 \|",
                r"^\| overrides \| .* \| 30 \| 0 \|",
            )
        )
    ],
    "benchmarks.speed.gcivr_epoch": [
        Case((r"^what +time +base +ratio", r"^GCIVR epoch .* S = sqrt\(m\) ", "^GCIVR .* / 2 "))
    ],
    "benchmarks.speed.harness": [Case((r"^Lightning harness / bare loop", r"with start-up \(100 steps\)"))],
    "benchmarks.speed.help": [Case((r"^drobench --help / import hydra +[\d.]+ m?s",))],
    "benchmarks.speed.startup": [
        Case(
            (
                r"^drobench run --help / import hydra +[\d.]+ m?s",
                r"^drobench leaderboard / import hydra +[\d.]+ m?s",
                r"^a finished run again / import hydra +[\d.]+ m?s",
                r"^a run of one step / import torch, pytorch_lightning +[\d.]+ m?s",
            )
        )
    ],
    "benchmarks.speed.constraints": [
        Case((r"^all \d+ groups at once / a loop", "^GCIVR step .* Communities", "^GCIVR step .* Adult"))
    ],
    "benchmarks.speed.parsing": [Case(("^reading MSLR text / scikit-learn", "^reading MSLR binary / scikit-learn"))],
    "benchmarks.speed.estimators": [
        Case((r"^DROClassifier, kl, 569 x 30 / LogisticRegression +[\d.]+ m?s", r"^DROClassifier, CVaR, 569"))
    ],
    "benchmarks.speed.leaderboard": [Case((r"^leaderboard of 200 runs on 2 boards / reading their files +\d",))],
    "benchmarks.speed.memory": [
        Case(
            (r"^table .* GB; budget_spent", r"^objective 0\.\d+, training error", r"^process \d+: peak RssAnon \d+ MB")
        )
    ],
    "benchmarks.speed.scaling": [
        Case(
            (
                "^ +4000 +100 +63 ",
                "^ +400 +1000 +320 ",
                "^all-reduce of 12 numbers",
                "^exchange .* us",
                r"^ +1024 .*%\)",
            ),
            ("--small", *PICTURE),
        )
    ],
    "benchmarks.speed.wasserstein": [
        Case((r"^200  GCIVR +[\d.]+", r"^200  cvxpy/Clarabel, 1e-8 +[\d.]+", r"^J\* at m = 200: 0\.67157201"))
    ],
    "benchmarks.studies.constrained_quadratic": [
        Case(
            (
                r"^\| 1.1 sum l \| 0.1 \| 20 \| 1 \|",
                r"^\| 0.5 \| 0.1 \|",
                r"^\| 50 \| 20 \| gcivr \| .*1 of 1",
                r"^\| 50 \| 20 \| projected_sgd \|",
                r"^\| 0.04 \| 0.02 \| gcivr \|",
            )
        )
    ],
    # No run of this sweep is of the size that the goals are about, so that every goal is missed.
    "benchmarks.studies.convergence": [
        Case(
            (
                r"^### KL 1, m=60",
                r"^\| `(gcivr|prox_gradient)` \| [\d.]+ \|.*\| 2, \d+ \|$",
                r"^\| KL 1, m=10000 .* NO \|",
            ),
            (),
            "convergence",
            code=1,
        )
    ],
    # Of the problems with kinks neither the budget is that of the goals, nor are all methods there.
    "benchmarks.studies.second_order": [
        Case(
            (
                r"^\| data \| problem \| `newton`, 1e-04 in 12 \|",
                r"^\| synthetic, 10 columns \| KL 1 \| \d+\.\d \| .* yes \|",
                "^### Balls and tails",
                r"^\| synthetic, 10 columns \| KL ball 0.1 \| .* NO \|",
                r"^Of 5 optima ",
                r"^\| KL 1 \| `gcivr` \|",
                "^### Goals missed",
                r"^- `newton`, 1e-04 in 60 on synthetic, 10 columns, KL ball 0.1: not measured",
            ),
            ("--small", "--seconds", "--large"),
            "second_order",
            code=1,
        )
    ],
    "benchmarks.studies.table1": [
        Case(
            (
                "^## Exponents",
                r"^\| GCIVR, KL \| 32 to 64 \|",
                "^## Curvature",
                r"^\| literal \| 16 \|",
                "^## Storage",
                r"^\| SERR \| .* m \+ ",
                "^## Cells",
                r"^\| GCIVR, KL \| 64 \| ",
            ),
            ("--small", "--cells"),
            "table1",
        ),
        Case((r"^\| GCIVR, KL \| 4 \|",), ("--tuning",), "table1"),
    ],
    "benchmarks.studies.tuning": [
        Case(
            (r"^\| intersectional_fairness \| unconstrained \| solver.learning_rate=0\.\d+ \| .* \| 2 \|",),
            (),
            "tuning",
        )
    ],
    "benchmarks.studies.figure1": [
        Case(
            (
                r"^\| intersectional groups \| GCIVR \| 2 \| 0\.\d+ ± ",
                r"^\| intersectional groups \| heavily constrained \| 2 \|",
                r"^\| intersectional groups \| unconstrained \| 2 \|",
                r"^\| task \| splits \| violation reached by both",
            ),
            PICTURE,
            "figure1",
        )
    ],
    "benchmarks.studies.never_worse": [Case((r"^\d+ cases, \d+ below their start, 0 above it$",))],
    "benchmarks.studies.pareto": [
        Case(
            (
                r"^Corner \(error, violation\): intersectional groups \(0.305, 0.5\)",
                r"^\| intersectional groups \| GCIVR \| 5 \| 1 \| 0\.\d+ \[",
                r"^\| intersectional groups \| unconstrained \| 1 \| 1 \|",
                r"^\| intersectional groups \| heavily constrained \| [+-]0\.\d+ \| \d of 1 \| 1 \|",
                "^Intersectional groups, train rows:",
                r"^\| Newton \| `alpha` 0.1, 0.3, 1, 3, 10 \|",
                "^Intersectional groups, test rows:",
            )
        )
    ],
    "benchmarks.studies.published": [Case((r"leaderboard.md, report.html, .*convergence.png from 42 runs",))],
    "benchmarks.twins.closeness": [
        Case(
            (
                r"^\| \| adult \| adult_twin \|",
                r"^\| rows \| 1,200 \| 1,200 \|",
                r"^\| \| communities_crime",
                "^.* mslr_twin",
            )
        )
    ],
    "benchmarks.twins.fit": [
        Case(
            (
                r"^adult_twin.json: [\d,]+ bytes",
                r"^communities_twin.json: [\d,]+ bytes",
                r"^mslr_twin.json: [\d,]+ bytes",
            )
        )
    ],
}


def call(name, *words, code=0):
    """Run a program from the root of the repository and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", name, *words], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == code, f"{name} {words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def assert_rows(text, rows):
    """Look for each of the rows below the one before."""
    lines = iter(text.splitlines())
    for row in rows:
        assert any(re.search(row, line) for line in lines), f"no line with {row!r} where it should be in\n{text}"


def test_every_program_has_a_small_form():
    assert sorted(CASES) == NAMES


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=" ".join((name.removeprefix("benchmarks."), *case.words)))
        for name, cases in CASES.items()
        for case in cases
    ],
)
def test_the_small_form_prints_its_table(name, case, small_sweep, tmp_path):
    picture = tmp_path / "drawn.png"
    results = [str(small_sweep(case.sweep))] if case.sweep is not None else []
    text = call(name, *results, *(word.format(picture=picture) for word in case.words), code=case.code)
    assert_rows(text, case.rows)
    assert picture.exists() == ("{picture}" in case.words)


@pytest.mark.process
def test_all_comparisons_in_one_table():
    rows = (
        "^GCIVR epoch",
        "^Lightning harness",
        "^drobench --help",
        r"^all \d+ groups",
        "^reading MSLR",
        "^least of 1",
    )
    assert_rows(call("benchmarks", "--small"), rows)


@pytest.mark.process
def test_the_list_has_a_line_for_each_program():
    lines = call("benchmarks", "--list").splitlines()
    assert [line.split()[2] for line in lines] == NAMES
    assert all(len(line.split()) > 5 for line in lines)


def test_the_table_of_the_package_names_every_program_and_pages_that_are_there():
    rows = [row.strip("| ").split(" | ") for row in benchmarks.__doc__.splitlines() if row.startswith("| ")][1:]
    assert sorted(f"benchmarks.{program}" for program, _, _ in rows) == NAMES
    for _, _, places in rows:
        assert all((ROOT / "docs" / place).is_file() for place in places.split(", ") if place != "-"), places


@pytest.mark.parametrize("folder", [ROOT / "docs", data_dir("sweeps"), ROOT / "README.md"])
def test_no_page_names_a_program_that_is_not_there(folder):
    pages = [folder] if folder.is_file() else [*folder.rglob("*.md"), *folder.rglob("*.yaml")]
    named = {name for page in pages for name in re.findall(r"python\s+-m\s+(benchmarks[\w.]*)", page.read_text())}
    assert named <= {"benchmarks", *NAMES}
