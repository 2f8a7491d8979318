"""One counted oracle for each form that a solver can accept."""
