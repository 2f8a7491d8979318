"""Settings of the whole process, which nobody's plugin may change for the others."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from drobench.registry.process_state import current_state, set_back, state_kept

CHANGES = {
    "torch's default device": lambda: torch.set_default_device("meta"),
    "torch's default dtype": lambda: torch.set_default_dtype(torch.float64),
    "torch's gradients": lambda: torch.set_grad_enabled(False),
    "torch's threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "working directory": lambda: os.chdir("/"),
}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    before = current_state()
    yield
    set_back(before)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed_named_and_undone(name):
    before = current_state()
    CHANGES[name]()
    (change,) = set_back(before)
    assert change.startswith(f"{name} ({before[name]}) to ")
    assert current_state() == before
    assert set_back(before) == []


@pytest.mark.parametrize("name", CHANGES)
def test_a_block_leaves_everything_as_it_was(name):
    before = current_state()

    def change_and_fail():
        CHANGES[name]()
        raise ValueError("anything")

    with pytest.raises(ValueError, match="anything"), state_kept():
        change_and_fail()
    assert current_state() == before


def test_torch_that_was_loaded_meanwhile_is_set_to_what_it_comes_with():
    unloaded = {"working directory": str(Path.cwd())}
    torch.set_default_dtype(torch.float64)
    assert set_back(unloaded) == ["torch's default dtype (torch.float32) to torch.float64"]
    assert torch.get_default_dtype() is torch.float32


def test_no_default_device_is_left_named_where_there_was_none():
    before = current_state()
    torch.set_default_device("meta")
    set_back(before)
    # A named default is a mode that sees every call of torch.
    assert torch.utils._device.CURRENT_DEVICE is None


def test_without_torch_only_the_folder_is_looked_at(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("drobench.registry.process_state.sys", SimpleNamespace(modules={}))
        assert list(current_state()) == ["working directory"]
        assert set_back(current_state()) == []
