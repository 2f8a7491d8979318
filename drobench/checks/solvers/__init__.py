"""The checks of solvers, one subject a file; `SolverChecks` is all of them."""
