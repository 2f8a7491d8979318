"""The Lightning loop around a solver: clock, budget, evaluation, checkpoints."""
