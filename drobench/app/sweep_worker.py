"""The process that computes one cell of a sweep.

This module is preloaded by the fork server, hence the heavy import that nothing below uses: it is the six seconds that
every worker would otherwise spend. The server itself never computes.
"""

import signal
import sys
from dataclasses import dataclass, replace
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import Path

import drobench.training.trainer  # noqa: F401  # preloads Lightning for the workers
from drobench.app.cell import fail_cell, run_prepared
from drobench.app.config import from_yaml, register
from drobench.app.guard import become_guarded
from drobench.app.prepare import Prepared, prepare
from drobench.app.sweep_server import redirect_output
from drobench.registry import load_catalogue
from drobench.registry.exits import AskedToEnd
from drobench.results.store import RunBusy, StoreUnusable


class Ended(Enum):
    """What has become of a cell; a worker that says nothing has died."""

    RECORDED = "recorded"
    BUSY = "another process computes it"
    UNUSABLE = "nothing can be written"


@dataclass(frozen=True)
class Planned:
    """What the sweep knows of a cell: its id, and the code it was to be computed with."""

    run_id: str
    code: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """What a worker tells the sweep."""

    ended: Ended
    message: str = ""


def work(config_text: str, planned: Planned, log: str, answers: "Connection[Answer, Answer]", grace: float) -> None:
    """Compute a cell.

    Args:
        config_text: Its configuration.
        planned: What was known of it when the sweep was planned.
        log: The file for everything that it prints.
        answers: Where to tell what became of it.
        grace: Seconds to end in when the sweep asks for it.
    """
    become_guarded(grace)
    # An orderly end, so that a worker with several ranks ends them first.
    signal.signal(signal.SIGTERM, _end)
    redirect_output(Path(log))
    try:
        answers.send(_computed(config_text, planned))
    except AskedToEnd:
        sys.exit(1)


def _end(*_: object) -> None:
    raise AskedToEnd


def _computed(config_text: str, planned: Planned) -> Answer:
    catalogue = load_catalogue()
    register(catalogue)
    try:
        prepared = prepare(from_yaml(config_text, catalogue, logged=True), catalogue)
        if prepared.run_id != planned.run_id:
            fail_cell(replace(prepared, run_id=planned.run_id, dataset=None), _unlike(prepared))
        elif prepared.code.distributions != planned.code:
            fail_cell(prepared, "The code has changed since the sweep was planned; start the sweep again.")
        else:
            run_prepared(prepared, keep_refusals=True)
    except RunBusy as error:
        return Answer(Ended.BUSY, str(error))
    except StoreUnusable as error:
        return Answer(Ended.UNUSABLE, str(error))
    return Answer(Ended.RECORDED)


def _unlike(prepared: Prepared) -> str:
    now = f" Now: {prepared.refusal}" if prepared.refusal is not None else ""
    return (
        f"The dataset {prepared.config.dataset.name!r} gave other data than when the sweep was planned. It has to give "
        "the same whenever it is loaded with the same settings: seed its random numbers. If it can be had only since "
        f"then, or a plugin was replaced meanwhile, start the sweep again.{now}"
    )
