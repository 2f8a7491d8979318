"""A run that is put together but not started, for programs that take its steps themselves.

The one place of the benchmarks that looks behind `drobench.run`.
"""

import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from drobench.app.assemble import assemble
from drobench.app.config import compose, hydra_ready, register, resolve
from drobench.app.loading import LastDataset
from drobench.app.optimum import Reference
from drobench.app.prepare import prepare
from drobench.objective.forms import NativeForm
from drobench.registry import Catalogue, load_catalogue
from drobench.training.settings import TrainerConfig
from drobench.training.task import Task


class Assembled(NamedTuple):
    """What the settings of a run amount to; its optimum is not looked for."""

    form: NativeForm
    """Of the problem itself, before any reformulation."""
    task: Task
    trainer: TrainerConfig
    asked: Mapping[str, Any]
    """What determines the result: the id of the run, and the code that would make it."""


def assembled(words: Sequence[str]) -> Assembled:
    """Put together the run of a command line such as `("solver=gcivr", "dataset=synthetic")`."""
    catalogue = known_catalogue()
    with hydra_ready():
        config = resolve(compose(list(words), catalogue))
    with tempfile.TemporaryDirectory() as optima:
        prepared = prepare(config, catalogue, _last_dataset())
        found = assemble(prepared, Path(optima), Reference(None, "not needed here"))
    asked = {"run": prepared.run_id, "code": prepared.code.distributions}
    return Assembled(found.problem.form, found.task, config.trainer, asked)


@cache
def _last_dataset() -> LastDataset:
    """Return what holds the dataset of the last run, which the next one often has too."""
    return LastDataset()


@cache
def known_catalogue() -> Catalogue:
    """Return the installed plugins, known to the configuration."""
    catalogue = load_catalogue()
    register(catalogue)
    return catalogue
