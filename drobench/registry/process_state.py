"""What belongs to the whole process and must not be changed by a plugin: everybody else computes with it too.

Torch has a default device, a default precision, a number of threads and a switch for gradients; the process has a
working directory. They are looked at before and after code of a plugin runs.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

State = dict[str, Any]


def current_state() -> State:
    """Return the settings as they are; torch's only if it is loaded, since loading it takes seconds."""
    try:
        found: State = {"working directory": str(Path.cwd())}
    except FileNotFoundError:
        found = {}  # the folder was removed; there is nothing to go back to
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch's default device"] = torch.get_default_device()
        found["torch's default dtype"] = torch.get_default_dtype()
        found["torch's gradients"] = torch.is_grad_enabled()
        found["torch's threads"] = torch.get_num_threads()
    return found


def set_back(before: State) -> list[str]:
    """Undo what has changed since, and say what it was; where torch was not loaded it was as it comes."""
    torch = sys.modules.get("torch")
    if torch is not None and "torch's default device" not in before:
        before = {**before, **_fresh_torch(torch)}
    now = current_state()
    changed = [name for name, value in before.items() if now.get(name) != value]
    for name in changed:
        _setter(name, torch)(before[name])
    return [f"{name} ({before[name]}) to {now.get(name, 'one that is gone')}" for name in changed]


@contextmanager
def state_kept() -> Iterator[None]:
    """Leave the settings as they are found."""
    before = current_state()
    try:
        yield
    finally:
        set_back(before)


def _fresh_torch(torch: Any) -> State:
    """Return how torch is when it has just been loaded, but for the threads, which depend on the machine."""
    return {
        "torch's default device": torch.device("cpu"),
        "torch's default dtype": torch.float32,
        "torch's gradients": True,
    }


def _setter(name: str, torch: Any) -> Callable[[Any], object]:
    if name == "working directory":
        return os.chdir
    if name == "torch's default device":
        # A default that is named costs time at every call, even if it is the CPU.
        return lambda device: torch.set_default_device(None if device == torch.device("cpu") else device)
    setters: dict[str, Callable[[Any], object]] = {
        "torch's default dtype": torch.set_default_dtype,
        "torch's gradients": torch.set_grad_enabled,
        "torch's threads": torch.set_num_threads,
    }
    return setters[name]
