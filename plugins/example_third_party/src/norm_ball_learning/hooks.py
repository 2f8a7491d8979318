"""The entry point: what this package adds to the catalogue."""

from drobench import ProblemEntry, SolverEntry, hookimpl

drobench_api = 1


@hookimpl
def drobench_solvers() -> list[SolverEntry]:
    """Return Frank-Wolfe, and the reference that makes gaps on our problem known."""
    from norm_ball_learning import frank_wolfe, reference  # noqa: PLC0415  # finding the plugin stays quick

    return [frank_wolfe.entry(), reference.entry()]


@hookimpl
def drobench_problems() -> list[ProblemEntry]:
    """Return the problem over a ball."""
    from norm_ball_learning import classification  # noqa: PLC0415

    return [classification.entry()]
