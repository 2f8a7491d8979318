"""The Python interface: `run`, `runs`, `leaderboard`, `plot`, `load_solution`."""

import warnings
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drobench.app.config import as_override, compose, from_yaml, hydra_ready, register, resolve
from drobench.app.results_folder import at_home, default_results
from drobench.app.solution import Solution, read_encoder
from drobench.errors import DrobenchError
from drobench.harmless import harmless
from drobench.moved import warn_of_old_name
from drobench.registry import load_catalogue
from drobench.registry.hints import did_you_mean
from drobench.registry.models import model_of
from drobench.results.comparison.filters import Filter
from drobench.results.record import Record
from drobench.results.report.shown import ShownLeaderboard
from drobench.results.store import ResultStore, Trouble

if TYPE_CHECKING:
    import polars

    from drobench.results.report.plots import Figure


def run(
    *overrides: str,
    on_evaluation: Callable[[dict[str, Any]], None] | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
    **settings: Any,
) -> Record:
    """Compute one run, or return its stored record if it was finished before.

    Args:
        overrides: As on the command line: `"solver=gcivr"`, `"problem.gamma=0.5"`.
        on_evaluation: Called with every evaluation, a dictionary of metrics.
        report: The old name of `on_evaluation`.
        settings: Top-level settings by keyword: `seed=3`, `results="elsewhere"`.

    Returns:
        The record, whose `status` says how the run ended.
    """
    from drobench.app.cell import run_cell

    if report is not None:
        warn_of_old_name("drobench.run(report=...)", "drobench.run(on_evaluation=...)")
        on_evaluation = on_evaluation or report
    catalogue = load_catalogue()
    register(catalogue)
    words = [*overrides, *(f"{name}={as_override(value)}" for name, value in settings.items())]
    with hydra_ready():
        config = resolve(compose(words, catalogue))
    return run_cell(config, catalogue, on_evaluation=on_evaluation)


def leaderboard(results: str | Path | None = None, *, only: Filter | None = None, **settings: Any) -> ShownLeaderboard:
    """Return the leaderboard of the runs in the folder of results; it prints itself, also in notebooks.

    Args:
        results: The folder; null: the usual one.
        only: Which runs take part, e.g. `Filter(problem=["kl_*"])`; null: all.
        settings: What is asked of them, by keyword, such as `target_gap=1e-3`, `iterate="average"` or
            `across=["dataset.seed"]`; `drobench.results.comparison.question.Question` explains all of them.

    Runs that cannot be read are left out with a warning.
    """
    from drobench.app.stored_comparison import compare_stored
    from drobench.results.comparison.question import Question

    asked = Question.of(**settings)
    return ShownLeaderboard.of(compare_stored(_store(results), _warn, asked, _keep(only)).leaderboard)


def runs(results: str | Path | None = None, *, only: Filter | None = None) -> "polars.DataFrame":
    """Return the stored runs as a data frame, oldest first: a row for each, with the settings in which they differ.

    Args:
        results: The folder; null: the usual one.
        only: Which runs, e.g. `Filter(solver=["gcivr*"])`; null: all.

    Runs that cannot be read are left out with a warning.
    """
    from drobench.results.run_table import run_frame

    scan = _store(results).records()
    for trouble in scan.troubles:
        _warn(trouble)
    return run_frame(_keep(only)(scan.records))


def plot(
    name: str = "*", results: str | Path | None = None, *, only: Filter | None = None, **settings: Any
) -> "Figure":
    """Return a figure, which a notebook shows and `save` writes to a file.

    Args:
        name: Which of those that `drobench plot` writes, without the ending; `*` and `?` stand for anything, and the
            first that fits is returned.
        results: The folder; null: the usual one.
        only: Which runs take part; null: all.
        settings: What is asked of them, as for `leaderboard`.

    Raises:
        DrobenchError: If there is no such figure; the message names those there are.
    """
    from drobench.app.stored_comparison import draw_stored
    from drobench.results.comparison.question import Question
    from drobench.results.report.plots import all_figures

    _, content = draw_stored(_store(results), _warn, Question.of(**settings), _keep(only))
    names = []
    for figure in all_figures(content):
        if fnmatchcase(figure.name, name):
            return figure
        names.append(figure.name)
    raise DrobenchError(
        f"There is no figure {name!r}.{did_you_mean(name, names)} There is: {', '.join(names) or 'none'}."
    )


def _store(results: str | Path | None) -> ResultStore:
    return ResultStore(at_home(Path(results)) if results is not None else default_results())


def _keep(only: Filter | None) -> Callable[[list[Record]], list[Record]]:
    return list if only is None else only.apply


def _warn(trouble: Trouble) -> None:
    warnings.warn(harmless(trouble.message), stacklevel=2)


def load_solution(run_id: str, *, iterate: str = "last", results: str | Path | None = None) -> Solution:
    """Return the model that a run found.

    Args:
        run_id: The run's id or the beginning of it.
        iterate: `last`, `average` or `best_feasible`.
        results: The folder of results; null: the usual one.
    """
    store = _store(results)
    record = store.read(run_id)
    arrays = store.solution(run_id)
    if iterate not in arrays:
        kept = ", ".join(name for name in ("last", "average", "best_feasible") if name in arrays) or "none"
        raise DrobenchError(f"Run {record.short_id} ({record.status}) has no iterate {iterate!r}; it has: {kept}.")
    catalogue = load_catalogue()
    register(catalogue)
    model = model_of(from_yaml(store.config(run_id), catalogue).model, catalogue)
    return Solution(
        record,
        arrays[iterate],
        arrays["feature_mean"],
        arrays["feature_scale"],
        int(arrays["classes"]),
        model,
        tuple(int(size) for size in arrays.get("shape", ())),
        read_encoder(arrays),
    )
