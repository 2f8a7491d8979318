"""The study of monotone methods, in its small form: no case ends above its start."""

import sys

import pytest

from benchmarks.studies import never_worse


@pytest.mark.convergence
def test_no_case_of_the_small_form_is_above_its_start(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["never_worse", "--small", "--only", "dataset=breast_cancer"])
    assert never_worse.main() == 0
    assert "0 above it" in capsys.readouterr().out


def test_every_method_that_calls_itself_monotone_is_looked_at():
    found = set(never_worse.monotone_methods(never_worse.load_catalogue()))
    assert {"gcivr", "civr", "dist_gcivr", "vrsc_pg", "prox_gradient"} <= found


@pytest.mark.parametrize(("returned", "worse"), [(1.0, False), (1.0 + 1e-12, False), (1.1, True), (None, True)])
def test_what_is_above_and_what_is_rounding(returned, worse):
    assert never_worse.Outcome((), 1.0, returned).worse is worse
