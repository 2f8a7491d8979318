"""The names of the reformulations that drobench itself has, which nobody else can take.

Apart from the reformulations, so that reading a catalogue of plugins imports none of them.
"""

OWN_NAMES = frozenset(
    {
        "kl_penalty",
        "kl_ball",
        "chi2_variance",
        "chi2_penalty",
        "chi2_ball",
        "cvar",
        "price",
        "smoothed_price",
        "cressie_read_ball",
        "spectral",
        "wasserstein_reduced",
        "wasserstein_literal",
        "wasserstein_constraints",
        "wasserstein_residuals",
        "smoothed_constraints",
        "projected_constraints",
        "group_penalty",
        "worst_group",
        "saddle",
        "group_saddle",
        "empirical_risk",
        "drop_robustness",
    }
)

RELAXATION = " (relaxation)"
"""What a route adds to the name of a step that gives something up."""
