"""Solvers: each sees mathematics only, never data, problems or results."""
