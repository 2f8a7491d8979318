"""Wasserstein logistic regression: GCIVR against an interior-point method and, if asked for, against other packages.

    python -m benchmarks.speed.wasserstein --sizes 1000 10000 100000 --features 50 [--packages]

Data: `synthetic`, ill-conditioned, seed 0, no intercept. Problem: l2 transport norm, radius 0.05, flip cost 1, no l2.

    GCIVR              the reduced form with its default continuation; the clock runs only in `init` and `step`, and the
                       exact risk F(x) is looked at once per pass, off the clock: seconds until F(x) - J* <= 1e-5
    cvxpy/Clarabel     the program of `exact_convex`, once at Clarabel's own tolerance (1e-8) and once as shipped
                       (1e-10, less where that fails); seconds of the whole call, building the program included
    dro, skwdro        `--packages`: each installed from PyPI into a virtual environment that is deleted afterwards

J* is the lowest value any method found, with the best lower bound from `drobench.reformulation.certificates`; the lines
below the table say how far it is above the bound, and whether that is small enough to call it certified.

Every method runs in a process of its own. Memory is the growth of the resident set above where it stands when the data
and all imports are there. One thread. Seconds are wall time, the least of three up to 10,000 rows; CPU seconds are next
to them because on a shared machine only those are comparable, and the ratios are theirs.
"""
