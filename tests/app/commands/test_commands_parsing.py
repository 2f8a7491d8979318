"""What the parsers of the commands share."""

import argparse
from pathlib import Path

from drobench.app.commands.parsing import add_parser, add_results, results_of


def test_results_are_those_of_the_option_then_of_the_environment(monkeypatch):
    parser = argparse.ArgumentParser()
    add_results(parser)
    monkeypatch.setenv("DROBENCH_RESULTS", "theirs")
    assert results_of(parser.parse_args(["--results", "mine"])) == Path("mine")
    assert results_of(parser.parse_args([])) == Path("theirs")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert results_of(parser.parse_args(["--results", "~/mine"])) == Path("/home/somebody/mine")


def test_the_help_of_a_command_ends_with_its_example():
    commands = argparse.ArgumentParser().add_subparsers()
    shown = add_parser(commands, "walk", "take a walk", "drobench walk  --far").format_help()
    assert "take a walk" in shown
    # As it was written, with both spaces.
    assert shown.endswith("example:\n  drobench walk  --far\n")
