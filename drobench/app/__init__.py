"""Composing a run from its parts: configuration, one run, sweeps, the command line."""
