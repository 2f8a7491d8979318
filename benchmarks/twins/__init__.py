"""Fitting the synthetic twins to the real data, and comparing them with it."""
