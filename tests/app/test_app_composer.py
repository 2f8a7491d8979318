"""Many configurations at once are what Hydra composes one by one, and are refused in the same words."""

import pytest

from drobench.app.composer import Composer
from drobench.app.config import ConfigError, compose, data_dir, hydra_ready, plain, register, resolve
from drobench.app.sweep_file import load_sweep

SWEEPS = sorted(data_dir("sweeps").glob("*.yaml"))


@pytest.fixture
def both(catalogue):
    """Compose the same words in both ways."""
    register(catalogue)
    with hydra_ready():
        composer = Composer(catalogue)
        yield lambda *words: (composer.compose(words), compose(words, catalogue))


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_the_cells_of_every_sweep_are_what_hydra_makes_of_them(both, file):
    cells = load_sweep(file).cells
    for words in (cells[0], cells[-1]):
        quick, slow = both(*words)
        assert plain(resolve(quick)) == plain(resolve(slow))


def test_settings_of_one_cell_are_not_those_of_the_next(both):
    changed, _ = both("solver=gcivr", "solver.batch=8", "problem.gamma=0.25", "model.hidden=[3,4]", "model=mlp")
    plain_one, slow = both("solver=gcivr", "model=mlp")
    assert (changed.solver.batch, changed.problem.gamma, list(changed.model.hidden)) == (8, 0.25, [3, 4])
    assert plain(resolve(plain_one)) == plain(resolve(slow))


@pytest.mark.parametrize(
    "words",
    [
        ("solver=gcivr", "dataset.seed=${seed}", "seed=3"),
        ("experiment=kl_synthetic", "problem.gamma=0.5", "solver=scgd"),
        ("problem.gamma=0.5", "problem=chi2_classification"),
        ("solver=gcivr", "++solver.batch=4"),
        ("model=mlp", "model.hidden=[5]"),
        ("results='a b, c=d'",),
    ],
)
def test_special_words_mean_the_same(both, words):
    quick, slow = both(*words)
    assert plain(resolve(quick)) == plain(resolve(slow))


@pytest.mark.parametrize(
    "words",
    [
        ("solver=gcvir",),
        ("solver.btach=3",),
        ("solver.batch=many",),
        ("solver.batch=1,2",),
        ("+solver.nothing=1",),
        ("solver=gcivr", "~problem"),
    ],
)
def test_what_hydra_refuses_is_refused_in_its_words(catalogue, words):
    register(catalogue)
    with hydra_ready():
        composer = Composer(catalogue)
        composer.compose(("solver=gcivr",))
        complaints = []
        for way in (composer.compose, lambda chosen: compose(chosen, catalogue)):
            with pytest.raises(ConfigError) as refusal:
                resolve(way(words))
            complaints.append(str(refusal.value))
    assert complaints[0] == complaints[1]
