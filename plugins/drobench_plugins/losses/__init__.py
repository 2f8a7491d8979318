"""Losses of a score and a target."""
