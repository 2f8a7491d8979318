"""Methods that know the curvature beside methods that do not: the goals, and what was measured."""
