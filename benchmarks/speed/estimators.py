"""Fitting a robust estimator, with its certificate, against scikit-learn's plain one on the same table.

    python -m benchmarks.speed.estimators [--small]

Breast cancer data (569 x 30) and a drawn table of 20,000 x 30, from raw features to coefficients.

    base      `StandardScaler`, then `LogisticRegression` with the same weight of the l2 norm
    side      `DROClassifier`, defaults but for the problem: standardizing, Newton's method, the certified gap
"""

import argparse
import warnings
from typing import Any

from benchmarks.speed.side_by_side import Comparison, add_small, least, machine, one_thread, repeats, table, timed

L2 = 1e-3
LARGE = (20_000, 30)
PROBLEMS = {"kl": {}, "KL ball": {"radius": 0.1}, "chi2": {"problem": "chi2"}, "CVaR": {"problem": "cvar"}}


def measure(small: bool = False) -> list[Comparison]:
    """Return the ratios of all problems and tables."""
    tables = {"569 x 30": _breast_cancer()} | ({} if small else {"20000 x 30": _drawn(*LARGE)})
    return [line for name, (features, labels) in tables.items() for line in _ratios(name, features, labels, small)]


def _ratios(name: str, features: Any, labels: Any, small: bool) -> list[Comparison]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from drobench.estimators import DROClassifier

    plain = make_pipeline(StandardScaler(), LogisticRegression(C=1.0 / (L2 * len(labels)), max_iter=1000))
    sides = [timed("plain", lambda: plain.fit(features, labels), times=1 if small else 5)]
    for problem, settings in PROBLEMS.items():
        model = DROClassifier(l2=L2, random_state=0, **settings)
        sides.append(timed(problem, lambda model=model: model.fit(features, labels)))
    with warnings.catch_warnings():
        # With many rows nobody is asked for the bound of a problem with kinks, and the estimator says so.
        warnings.simplefilter("ignore")
        seconds = least(sides, repeats(small))
    return [
        Comparison(f"DROClassifier, {problem}, {name} / LogisticRegression", seconds[problem], seconds["plain"])
        for problem in PROBLEMS
    ]


def _breast_cancer() -> tuple[Any, Any]:
    from sklearn.datasets import load_breast_cancer

    found: tuple[Any, Any] = load_breast_cancer(return_X_y=True)
    return found


def _drawn(rows: int, columns: int) -> tuple[Any, Any]:
    import numpy as np

    generator = np.random.default_rng(0)
    features = generator.normal(size=(rows, columns))
    return features, (features[:, :3].sum(axis=1) + generator.logistic(size=rows) > 0).astype(int)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_small(parser)
    options = parser.parse_args()
    one_thread()
    print(table(measure(options.small)))
    print(f"least of {repeats(options.small)}, in turn; {machine()}")


if __name__ == "__main__":
    main()
