"""Rewriting a problem into the form a solver accepts, and carrying the solution back."""
