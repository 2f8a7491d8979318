"""`drobench doctor`: what will work on this machine, and what will not."""

import argparse
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from drobench.app.commands.parsing import AddCommand, add_results, results_of
from drobench.errors import DrobenchError


def add_commands(add: AddCommand) -> None:
    """Add the command of this family."""
    add_results(add("doctor", doctor, "say what works on this machine", "drobench doctor"))


def doctor(options: argparse.Namespace) -> int:
    """Print the examination; return 1 if something is wrong."""
    from rich.markup import escape

    from drobench.app.console import open_console

    console = open_console()
    bad = 0
    for finding in examine(results_of(options)):
        mark = {True: "[green]ok[/green]", False: "[red]no[/red]", None: "  "}[finding.good]
        console.print(f"{mark}  {escape(finding.subject):<18} {escape(finding.text)}")
        bad += finding.good is False
    return 1 if bad else 0


class Finding(NamedTuple):
    """One line of the examination."""

    good: bool | None
    """`None` for a fact that is neither good nor bad."""
    subject: str
    text: str


def examine(results: Path) -> Iterator[Finding]:
    """Look at versions, devices, threads, plugins, the folder of results and the optional parts."""
    import torch.distributed

    from drobench.app.environment import hardware, versions
    from drobench.registry import load_catalogue

    for name, version in versions().items():
        yield Finding(version != "unknown" or None, name, version)
    machine = hardware()
    yield Finding(None, "processor", f"{machine['processor']}, {machine['cores']} cores")
    yield Finding(None, "memory", f"{machine['memory_bytes'] / 2**30:.1f} GiB")
    gpus = machine["gpus"]
    yield Finding(
        bool(gpus) or None,
        "GPU",
        ", ".join(gpus) if gpus else "none: trainer=cpu and trainer=ddp_cpu work; trainer=gpu and trainer=ddp do not",
    )
    yield Finding(
        torch.distributed.is_available() and torch.distributed.is_gloo_available(), "gloo", "for trainer=ddp_cpu"
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding(None, "threads", f"{cores} usable; a run uses trainer.threads=1 unless told otherwise")
    yield _clock()
    yield _results(results)
    catalogue = load_catalogue()
    counts = f"{len(catalogue.solvers)} solvers, {len(catalogue.problems)} problems, {len(catalogue.datasets)} datasets"
    yield Finding(not catalogue.troubles, "plugins", counts)
    for trouble in catalogue.troubles:
        yield Finding(False, "plugin", str(trouble))
    launchers = importlib.util.find_spec("hydra_plugins") is not None
    yield Finding(launchers or None, "launchers", "found" if launchers else "none: pip install 'drobench[launchers]'")
    yield _wandb()
    board = importlib.util.find_spec("tensorboard") is not None
    yield Finding(board or None, "tensorboard", "found" if board else "none: pip install 'drobench[tensorboard]'")


def _wandb() -> Finding:
    from drobench.training.settings import WandbConfig
    from drobench.training.wandb_session import credentials_found, mode_of

    mode = mode_of(WandbConfig())
    if credentials_found():
        return Finding(True, "wandb", f"logged in; logger=wandb works {mode}")
    return Finding(None, "wandb", f"not logged in; logger=wandb works {mode}. `wandb login` changes that")


def _clock() -> Finding:
    from drobench.training.clock_check import check_clock

    found = check_clock()
    text = f"{found.solver:.3f} s of solving timed as {found.timed:.3f} s, beside {found.evaluation:.3f} s of scoring"
    return Finding(found.good, "clock", text)


def _results(results: Path) -> Finding:
    from drobench.results.store import ResultStore

    try:
        ResultStore(results).prepare()
    except DrobenchError as error:
        return Finding(False, "results", str(error))
    return Finding(True, "results", f"{results.resolve()} can be written")
