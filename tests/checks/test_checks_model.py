"""Each check of models lets a good one pass and catches the one that breaks its promise."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from broken import assert_exactly, failures
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
    assert_exactly(failures(ModelChecks, made), expected, "model")


UNUSABLE = {
    "changes itself": (batch_norm, "a call changes '0.running_mean'"),
    "counts": (lambda config, shape, outputs: Counting(shape[0], outputs), "a call changes 'calls'"),
    "mixes rows": (lambda config, shape, outputs: Mixing(shape[0], outputs), "depend on the rows that stand beside it"),
    "draws": (lambda config, shape, outputs: nn.Sequential(nn.Dropout(), nn.Linear(*shape, outputs)), "two calls"),
    "wrong shape": (lambda config, shape, outputs: nn.Linear(*shape, outputs + 1), "must have the shape (3, 1)"),
    "no shape": (lambda config, shape, outputs: Summing(shape[0], outputs), "must have the shape (3, 1); found ()"),
    "for other rows": (lambda config, shape, outputs: nn.Linear(99, outputs), "cannot be called on rows of shape (5,)"),
    "no module": (lambda config, shape, outputs: torch.relu, "must return a torch.nn.Module"),
    "constant": (lambda config, shape, outputs: nn.Flatten(), "no parameter that asks for a gradient"),
    "not a number": (lambda config, shape, outputs: Spoiled(shape[0], outputs), "must be finite; found 1 of"),
}


class Counting(Network):
    """Has a memory, among its buffers."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, rows):
        self.calls += 1
        return super().forward(rows)


class Mixing(Network):
    """Every row sees the others."""

    def forward(self, rows):
        return super().forward(rows - rows.mean(dim=0))


class Summing(Network):
    """One number for all rows."""

    def forward(self, rows):
        return super().forward(rows).sum()


class Spoiled(Network):
    """Drawn with a hole."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.last.bias.data[0] = torch.nan


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_module_that_cannot_be_used_is_told_once_and_fails_the_checks(name):
    factory, text = UNUSABLE[name]
    results = run_checks({"TestBroken": type("TestBroken", (ModelChecks,), {"entry": entry(factory=factory)})})
    # What is checked of the entry alone needs no model.
    results = [result for result in results if result.check != "entry_is_complete"]
    (reason,) = [result.reason for result in results if result.outcome == "failed"]
    assert text in reason
    assert {result.outcome for result in results} <= {"failed", "skipped"} or name == "not a number"


def test_images_come_in_their_shape():
    seen = []

    def convolution(config, shape, outputs):
        """A model."""
        seen.append(shape)
        return nn.Sequential(nn.Conv2d(shape[0], 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(2 * 6 * 6, outputs))

    images = entry(factory=convolution, needs=frozenset({"images", "labels"}))
    results = run_checks({"TestIt": type("TestIt", (ModelChecks,), {"entry": images})})
    assert {result.outcome for result in results} == {"passed"}, results
    assert set(seen) == {(2, 8, 8)}


def test_rows_of_an_unusual_kind_need_a_shape():
    signals = entry(needs=frozenset({"signals"}))
    results = run_checks({"TestIt": type("TestIt", (ModelChecks,), {"entry": signals})})
    skipped = [result for result in results if result.outcome == "skipped"]
    assert len(skipped) == len(results) - 1
    assert "give the checks a `shape`" in skipped[0].reason
    results = run_checks({"TestIt": type("TestIt", (ModelChecks,), {"entry": signals, "shape": (7,)})})
    assert {result.outcome for result in results} == {"passed"}
