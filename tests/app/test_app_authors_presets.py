"""The presets of the authors' released scripts compose without data, and run on the twins."""

import math
import re
from pathlib import Path

import pytest

from drobench.app.cell import run_cell
from drobench.app.config import plain
from drobench.results.record import Status

PRESETS = ("noisy_groups", "intersectional", "ranking")
SMALL_TWINS = {
    "noisy_groups": ("dataset=adult_twin", "dataset.rows=600"),
    "intersectional": ("dataset=communities_twin", "dataset.rows=300", "problem.grid=3"),
    "ranking": ("dataset=mslr_twin", "dataset.queries=[4,0,3]"),
}


@pytest.fixture
def preset(configure):
    """Compose a preset: task, kind (`authors` or `paper`) and further overrides."""

    def make(task, *words, kind="authors"):
        return configure(f"experiment={task}_{kind}", *words, base=())

    return make


def test_noisy_groups_has_the_defaults_of_the_script(preset):
    config = preset("noisy_groups")
    assert (config.dataset.name, config.problem.name, config.model.name) == ("adult", "noisy_group_fairness", "linear")
    assert (config.dataset.split, config.dataset.open_buckets) == ([0.2, 0.0, 0.8], True)
    assert (config.problem.epsilon, config.problem.noise, config.problem.l2) == (0.01, 0.3, 0.0)
    assert (config.problem.compare_with_everybody, config.problem.resampling) == (True, False)
    assert not config.problem.fold_errors
    assert config.reformulation.alpha / config.reformulation.gamma == 1.0
    assert (config.solver.refresh_every, config.solver.constraint_batch) == (None, None)
    assert (config.solver.learning_rate, config.solver.weight_decay, config.budget.steps) == (0.01, 0.0, 50_000)


def test_intersectional_has_the_defaults_of_the_script(preset):
    config = preset("intersectional")
    assert (config.dataset.name, config.problem.name) == ("communities_crime", "intersectional_fairness")
    assert (config.problem.epsilon, config.problem.grid, config.problem.fold_errors) == (0.01, 10, True)
    assert config.reformulation.biased_extra_term
    assert (config.solver.refresh_every, config.solver.constraint_batch) == (500, 10)
    assert (config.solver.replacement, config.solver.whole_samples) == (True, True)
    assert (config.solver.learning_rate, config.solver.weight_decay, config.budget.steps) == (0.01, 0.0, 50_000)


def test_ranking_has_the_defaults_of_the_script(preset):
    config = preset("ranking")
    assert (config.dataset.name, config.problem.name) == ("mslr", "ranking_fairness")
    assert (config.dataset.queries, config.dataset.threshold_per_split) == ([1000, 0, 1000], True)
    assert not config.dataset.standardize
    assert (config.model.name, config.model.hidden) == ("mlp", [128])
    assert (config.problem.epsilon, config.reformulation.alpha, config.reformulation.gamma) == (0.25, 0.1, 500.0)
    assert (config.solver.in_turn, config.solver.whole_samples, config.solver.batch) == (True, False, 1)
    assert (config.solver.learning_rate, config.solver.weight_decay) == (0.001, 0.1)
    assert (config.solver.refresh_every, config.budget.steps) == (None, 100_000)


@pytest.mark.parametrize("task", PRESETS)
def test_steps_alone_end_these_runs_and_nothing_is_projected(preset, task):
    config = preset(task)
    assert config.solver.name == "gcivr_authors"
    assert config.solver.drop_gamma
    assert config.budget.passes is None
    assert config.reformulation.continuation is None
    assert config.reformulation.projection == "none"


@pytest.mark.parametrize("task", PRESETS)
def test_the_document_says_what_the_preset_does(preset, task):
    document = (Path(__file__).parents[2] / "docs" / "authors-settings.md").read_text()
    section = document.split(f"`experiment={task}_authors`\n")[1].split("\n## ")[0]
    stated = re.findall(r"`((?:dataset|problem|model|reformulation|solver|budget)\.[a-z_0-9]+=[^`]+)`", section)
    assert len(stated) > 8
    assert plain(preset(task, *stated)) == plain(preset(task))


@pytest.mark.parametrize("task", PRESETS)
def test_the_presets_of_the_paper_have_none_of_the_flags(preset, task):
    config = preset(task, kind="paper")
    assert config.solver.name == "gcivr"
    assert not config.reformulation.biased_extra_term
    for group, flags in (
        (config.dataset, ("open_buckets", "threshold_per_split")),
        (config.problem, ("compare_with_everybody", "fold_errors")),
    ):
        assert not any(getattr(group, flag, False) for flag in flags)
    assert getattr(config.problem, "resampling", True)


@pytest.mark.parametrize("task", PRESETS)
@pytest.mark.convergence
def test_they_run_on_the_twins(preset, catalogue, task):
    record = run_cell(preset(task, *SMALL_TWINS[task], "budget.steps=6", "evaluation.every_passes=2"), catalogue)
    assert record.status is Status.BUDGET_SPENT
    assert record.solver.name == "gcivr_authors"
    last = record.iterates.last
    assert last.step == 6
    for name in ("objective", "train_error", "test_error", "train_max_violation", "test_max_violation"):
        assert math.isfinite(getattr(last, name)), name
    assert 0.0 <= last.test_error <= 1.0
    assert record.oracle.projections == 0


@pytest.mark.convergence
def test_the_cost_of_a_few_steps_is_that_of_the_script(preset, catalogue):
    steps = ("budget.steps=6", "evaluation.every_passes=2")
    noisy = run_cell(preset("noisy_groups", *SMALL_TWINS["noisy_groups"], *steps), catalogue).oracle
    # All rows once and the three groups at two points in every step.
    assert (noisy.passes, noisy.constraint_checks) == (6.0, 6 * 2 * 3)
    ranking = run_cell(preset("ranking", *SMALL_TWINS["ranking"], *steps), catalogue).oracle
    assert (ranking.passes, ranking.constraint_checks) == (6 / 4, 6 * 2 * 2)
