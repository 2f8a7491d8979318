"""Starting a run at Weights & Biases: with or without the network, alone or as part of one of its own sweeps."""

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import wandb
from requests.utils import get_netrc_auth

from drobench.training.settings import WandbConfig


class WandbFailed(UserWarning):
    """Weights & Biases could not do its part; the run it was to follow is not affected."""


@contextmanager
def tolerated(doing: str) -> Iterator[None]:
    """Turn whatever wandb raises into a warning: a spectator that faints does not stop the run."""
    try:
        yield
    except Exception as error:
        warnings.warn(
            f"wandb failed while {doing}: {type(error).__name__}: {error}. This goes on without it, and the results "
            "are recorded as always. Use logger.mode=offline if the network is the trouble.",
            WandbFailed,
            stacklevel=2,
        )


def credentials_found() -> bool:
    """Return whether wandb would find a key without asking: in the environment, its settings or the netrc file."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    settings = wandb.setup().settings
    return settings.api_key is not None or get_netrc_auth(settings.base_url) is not None


def mode_of(config: WandbConfig) -> str:
    """Return wandb's mode: the one asked for, else that of WANDB_MODE, else online exactly where there is a key."""
    if config.mode != "auto":
        return config.mode
    return os.environ.get("WANDB_MODE") or ("online" if credentials_found() else "offline")


def start_run(
    config: WandbConfig,
    folder: Path,
    *,
    identity: str,
    name: str,
    job_type: str,
    settings: dict[str, Any],
    continued: bool = False,
) -> "wandb.Run":
    """Start a run whose files go to `folder`, from which those of wandb are removed first.

    A run that is continued takes up the history it left behind. One that begins anew replaces it, since the same id
    means the same computation.

    Args:
        config: Project, entity, mode, group and tags.
        folder: Belongs to this run.
        identity: Its id, the same for the same computation.
        name: For people.
        job_type: By which runs are filtered.
        settings: What wandb calls the config.
        continued: Whether this goes on with an earlier run.
    """
    # An earlier attempt without the network would be uploaded beside this one, its rows a second time.
    shutil.rmtree(folder / "wandb", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    labels: dict[str, Any] = {"project": config.project, "entity": config.entity}
    if "WANDB_SWEEP_ID" in os.environ:
        # An agent of `wandb sweep` has fixed these.
        labels = {}
    if "WANDB_RUN_ID" not in os.environ:
        labels |= {"id": identity, "resume": "allow" if continued else None}
    return wandb.init(
        **labels,
        dir=folder.absolute(),
        name=name,
        job_type=job_type,
        group=config.group,
        tags=config.tags,
        config=settings,
        mode=mode_of(config),  # type: ignore[arg-type]  # WANDB_MODE may hold any word, and wandb says which are wrong
        # A run that the calling program has opened for itself is left alone.
        reinit="create_new",
        # No redirection of the terminal, which several runs in one process share, and only a few lines of its own.
        settings=wandb.Settings(console="off", quiet=True, save_code=False),
    )
