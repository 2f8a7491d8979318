"""Each check of models lets a good one pass and catches the one that breaks its promise."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from drobench.checks import ModelChecks
from drobench.checks.running import run_checks
from drobench.registry import ModelEntry


@dataclass
class Settings:
    """None."""


class Network(nn.Module):
    """Two layers, with something wrong in between for whoever asks for it."""

    def __init__(self, inputs, outputs, wrong=""):
        super().__init__()
        self.wrong = wrong
        self.first = nn.Linear(inputs, 4)
        self.last = nn.Linear(4, outputs)
        if wrong == "idle":
            self.idle = nn.Parameter(torch.ones(3))
        if wrong == "drawn by numpy":
            self.first.weight.data = torch.from_numpy(np.random.standard_normal((4, inputs)))
        if wrong == "always the same":
            torch.manual_seed(0)
            self.first.reset_parameters()
            self.last.reset_parameters()

    def forward(self, rows):
        hidden = torch.tanh(self.first(rows))
        if self.wrong == "detached":
            hidden = hidden + self.first(rows).detach()
        if self.wrong == "double":
            hidden = hidden + torch.ones(4, dtype=torch.float64)
        if self.wrong == "blind":
            hidden = 0.0 * hidden
        scores = self.last(hidden)
        return scores * 0.0 + rows.new_tensor(1.0) if self.wrong == "blind" else scores


def entry(wrong="", **changes):
    def build(config, shape, outputs):
        """A model."""
        return Network(shape[0], outputs, wrong)

    described = {"name": "sample", "summary": "A model.", "reference": "here", "config": Settings, "factory": build}
    return ModelEntry(**{**described, **changes})


def batch_norm(config, shape, outputs):
    """A model."""
    return nn.Sequential(nn.BatchNorm1d(*shape), nn.Linear(*shape, outputs))


def wrapped(config, shape, outputs):
    """A model."""
    return nn.Sequential(nn.Linear(*shape, outputs))


START = "start_is_seeded_and_finite"
GRADIENTS = "gradients_are_those_of_finite_differences"
BROKEN = {
    "no reference": (entry(reference=""), {"entry_is_complete"}),
    "drawn by numpy": (entry("drawn by numpy"), {START}),
    "always the same": (entry("always the same"), {START}),
    "idle": (entry("idle"), {"every_parameter_matters"}),
    "detached": (entry("detached"), {GRADIENTS}),
    "double": (entry("double"), {"single_precision_gives_the_same_scores"}),
    "blind": (entry("blind"), {"every_parameter_matters", "learning_lowers_the_loss",
                               "linear_models_keep_their_closed_forms"}),
    "linear": (entry(factory=wrapped), {"linear_models_keep_their_closed_forms"}),
}  # fmt: skip


class TestSample(ModelChecks):
    """The good one, checked as an author would."""

    entry = entry()


@pytest.mark.parametrize("name", BROKEN)
def test_exactly_the_check_of_a_broken_promise_fails(name):
    made, expected = BROKEN[name]
    results = run_checks({"TestBroken": type("TestBroken", (ModelChecks,), {"entry": made})})
    failed = {result.check: result.reason for result in results if result.outcome == "failed"}
    assert set(failed) == expected, failed
    for reason in failed.values():
        assert reason.startswith("model 'sample': expected ")
        assert "; found " in reason
        assert " To do: " in reason


def test_a_module_that_changes_itself_fails_every_check_with_one_reason():
    checks = {"TestBroken": type("TestBroken", (ModelChecks,), {"entry": entry(factory=batch_norm)})}
    reasons = {result.reason for result in run_checks(checks) if result.outcome == "failed"}
    assert all("a call changes '0.running_mean'" in reason for reason in reasons)
    assert reasons


def test_rows_of_an_unusual_kind_need_a_shape():
    signals = entry(needs=frozenset({"signals"}))
    results = run_checks({"TestIt": type("TestIt", (ModelChecks,), {"entry": signals})})
    skipped = [result for result in results if result.outcome == "skipped"]
    assert len(skipped) == len(results) - 1
    assert "give the checks a `shape`" in skipped[0].reason
    results = run_checks({"TestIt": type("TestIt", (ModelChecks,), {"entry": signals, "shape": (7,)})})
    assert {result.outcome for result in results} == {"passed"}
