"""The entry point: what this package adds to the catalogue.

Heavy imports happen inside the hooks, so that finding the plugin costs nothing.
"""

from drobench.registry import DatasetEntry, ProblemEntry, SolverEntry, hookimpl


@hookimpl
def drobench_solvers() -> list[SolverEntry]:
    """Return the solvers of this package."""
    from drobench_plugins.solvers import exact_convex, gcivr, scgd, unconstrained  # noqa: PLC0415

    return [module.entry() for module in (gcivr, scgd, unconstrained, exact_convex)]


@hookimpl
def drobench_problems() -> list[ProblemEntry]:
    """Return the problems of this package."""
    from drobench_plugins.problems import (  # noqa: PLC0415
        divergence_classification,
        intersectional_fairness,
        noisy_group_fairness,
        ranking_fairness,
        wasserstein_logistic,
    )

    modules = (
        divergence_classification,
        wasserstein_logistic,
        noisy_group_fairness,
        intersectional_fairness,
        ranking_fairness,
    )
    return [entry for module in modules for entry in module.entries()]


@hookimpl
def drobench_datasets() -> list[DatasetEntry]:
    """Return the datasets of this package."""
    from drobench_plugins.datasets import breast_cancer, digits, synthetic, tabular  # noqa: PLC0415

    return [module.entry() for module in (breast_cancer, digits, synthetic, tabular)]
