"""Faults on purpose: processes killed, files damaged, disks filled, bad plugins, input that nobody would type.

Each scenario is a file with a function `look(count, seed)` that tries so many cases and says what was found; `python -m
benchmarks.faults` runs them all, and `tests/faults/` runs them with fewer cases. `docs/reliability.md` has what is
promised.
"""
