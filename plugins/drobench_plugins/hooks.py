"""The entry point: what this package adds to the catalogue.

Heavy imports happen inside the hooks, so that finding the plugin costs nothing.
"""

from drobench.registry import DatasetEntry, LoggerEntry, LossEntry, ModelEntry, ProblemEntry, SolverEntry, hookimpl

drobench_api = 1


@hookimpl
def drobench_solvers() -> list[SolverEntry]:
    """Return the solvers of this package."""
    from drobench_plugins.solvers import (  # noqa: PLC0415
        accelerated_gradient,
        agnostic_fl,
        asc_pg,
        c_saga,
        civr,
        cover,
        dist_gcivr,
        exact_constrained,
        exact_convex,
        fulltouch,
        gcivr,
        gcivr_authors,
        group_dro,
        heavily_constrained,
        lagrangian,
        lbfgs,
        lighttouch,
        midtouch,
        minibatch_dro,
        newton,
        one_projection_sgd,
        preconditioned_gcivr,
        primal_dual,
        projected_sgd,
        prox_gradient,
        scgd,
        serr,
        sevr,
        unconstrained,
        vrsc_pg,
    )

    modules = (gcivr, dist_gcivr, gcivr_authors, scgd, unconstrained, heavily_constrained, lagrangian, exact_convex)
    composite = (civr, c_saga, vrsc_pg, cover, asc_pg, minibatch_dro, prox_gradient)
    whole = (accelerated_gradient, lbfgs, newton, preconditioned_gcivr)
    saddle = (serr, sevr, primal_dual, group_dro, agnostic_fl)
    constrained = (projected_sgd, one_projection_sgd, fulltouch, lighttouch, midtouch, exact_constrained)
    return [module.entry() for module in (*modules, *composite, *whole, *saddle, *constrained)]


@hookimpl
def drobench_problems() -> list[ProblemEntry]:
    """Return the problems of this package."""
    from drobench_plugins.problems import (  # noqa: PLC0415
        constrained_quadratic,
        divergence_classification,
        divergence_regression,
        further_adversaries,
        group_classification,
        intersectional_fairness,
        noisy_group_fairness,
        ranking_fairness,
        wasserstein_logistic,
        wasserstein_regression,
    )

    modules = (
        divergence_classification,
        divergence_regression,
        further_adversaries,
        group_classification,
        wasserstein_logistic,
        wasserstein_regression,
        noisy_group_fairness,
        intersectional_fairness,
        ranking_fairness,
        constrained_quadratic,
    )
    return [entry for module in modules for entry in module.entries()]


@hookimpl
def drobench_datasets() -> list[DatasetEntry]:
    """Return the datasets of this package."""
    from drobench_plugins.datasets import (  # noqa: PLC0415
        adult,
        adult_twin,
        breast_cancer,
        communities_crime,
        communities_twin,
        diabetes,
        digits,
        mapped,
        mslr,
        mslr_twin,
        synthetic,
        tabular,
        wine,
    )

    modules = (
        breast_cancer,
        digits,
        diabetes,
        wine,
        synthetic,
        tabular,
        mapped,
        adult,
        communities_crime,
        mslr,
        adult_twin,
        communities_twin,
        mslr_twin,
    )
    return [module.entry() for module in modules]


@hookimpl
def drobench_models() -> list[ModelEntry]:
    """Return the models of this package."""
    from drobench_plugins.models import cnn, linear, mlp  # noqa: PLC0415

    return [module.entry() for module in (linear, mlp, cnn)]


@hookimpl
def drobench_losses() -> list[LossEntry]:
    """Return the losses of this package."""
    from drobench_plugins.losses import of_margins, of_residuals  # noqa: PLC0415

    return [*of_margins.entries(), *of_residuals.entries()]


@hookimpl
def drobench_loggers() -> list[LoggerEntry]:
    """Return the loggers of this package."""
    from drobench_plugins.loggers import ours  # noqa: PLC0415

    return ours.entries()
