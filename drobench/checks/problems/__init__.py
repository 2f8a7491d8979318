"""The checks of problems, one subject a file; `ProblemChecks` is all of them."""
