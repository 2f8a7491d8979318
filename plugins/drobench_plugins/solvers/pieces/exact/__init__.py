"""Exact solutions of convex robust problems: one file for each kind of program."""
