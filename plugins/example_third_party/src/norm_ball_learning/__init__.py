"""Robust learning over a ball, as a plugin of drobench."""
