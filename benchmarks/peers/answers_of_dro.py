"""The optima that the package `dro` 0.4.3 finds for its linear models, as `tests/plugins/problems/answers_of_dro.json`.

It brings its own torch, torchvision, xgboost and lightgbm, so it is no dependency of the tests: they read the file that
this program wrote, and compare where definitions meet. To write it again, in a virtual environment of its own:

    python3 -m venv /tmp/dro-venv && /tmp/dro-venv/bin/pip install dro==0.4.3
    /tmp/dro-venv/bin/python benchmarks/peers/answers_of_dro.py

Nothing of drobench is imported. Each answer is the robust objective that a model reports, with its parameters; what its
settings are called there stands beside what they are here: a chi-square ball of `eps` is one of radius `eps / 2`, and
for squared losses in a Wasserstein ball its objective is the root of ours.
"""

import importlib
import json
import math
from pathlib import Path

import numpy as np

FILE = Path(__file__).parents[2] / "tests" / "plugins" / "problems" / "answers_of_dro.json"
ROWS = 40
LOSSES = {"svm": "hinge", "logistic": "logistic", "ols": "squared", "lad": "absolute"}
MODELS = (
    # Module and class there, its setting, the problem here, its settings.
    ("chi2_dro", "Chi2DRO", {"eps": 0.8}, "chi2", {"variant": "ball", "radius": 0.4}),
    ("kl_dro", "KLDRO", {"eps": 0.2}, "kl", {"variant": "ball", "radius": 0.2}),
    ("cvar_dro", "CVaRDRO", {"alpha": 0.3}, "cvar", {"level": 0.3}),
    ("tv_dro", "TVDRO", {"eps": 0.15}, "total_variation", {"radius": 0.15}),
)
TRANSPORTS = (
    # Settings there, and those of `wasserstein_regression` and `wasserstein_logistic` here.
    ("ols", {"eps": 0.05, "p": 2, "kappa": "inf"}, {"radius": 0.05, "norm": "l2"}),
    ("ols", {"eps": 0.05, "p": 1, "kappa": "inf"}, {"radius": 0.05, "norm": "l1"}),
    ("ols", {"eps": 0.05, "p": "inf", "kappa": "inf"}, {"radius": 0.05, "norm": "linf"}),
    ("lad", {"eps": 0.05, "p": 2, "kappa": "inf"}, {"radius": 0.05, "norm": "l2"}),
    ("lad", {"eps": 0.05, "p": 1, "kappa": 0.8}, {"radius": 0.05, "norm": "l1", "target_cost": 0.8}),
    ("lad", {"eps": 0.05, "p": "inf", "kappa": "inf"}, {"radius": 0.05, "norm": "linf"}),
    ("logistic", {"eps": 0.05, "p": 2, "kappa": 1.0}, {"radius": 0.05, "norm": "l2", "flip_cost": 1.0}),
    ("logistic", {"eps": 0.05, "p": 1, "kappa": "inf"}, {"radius": 0.05, "norm": "l1", "flip_cost": None}),
)


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, labels in {-1, +1} and targets, by formula."""
    i, k = np.arange(1.0, ROWS + 1)[:, None], np.arange(1.0, 4.0)[None]
    features = np.sin(i * k) + 0.5 * np.cos(2 * i + k)
    noise = np.sin(7.0 * i[:, 0] ** 1.3)
    scores = features @ np.array([1.0, -0.6, 0.3]) + 0.2
    return features, np.where(scores + 0.9 * noise > 0, 1.0, -1.0), scores + 0.7 * noise


def answer(module: str, name: str, kind: str, settings: dict[str, object]) -> dict[str, object]:
    """Return what a model of the package finds."""
    features, labels, targets = data()
    model = getattr(importlib.import_module(f"dro.linear_model.{module}"), name)(3, kind, solver="CLARABEL")
    model.update(settings)
    model.fit(features, targets if kind in ("ols", "lad") else labels)
    value = float(model.robust_obj)
    if module == "wasserstein_dro" and kind == "ols":
        value = value * value
    point = [*np.asarray(model.theta, dtype=float).tolist(), float(model.b)]
    return {"model": name, "kind": kind, "there": settings, "value": value, "point": point, "loss": LOSSES[kind]}


def answers() -> list[dict[str, object]]:
    """Return all of them, each with the problem that it answers here."""
    found = []
    for module, name, there, family, here in MODELS:
        for kind, loss in LOSSES.items():
            task = "regression" if loss in ("squared", "absolute") else "classification"
            found.append({**answer(module, name, kind, there), "problem": f"{family}_{task}", "here": here})
    for kind, there, here in TRANSPORTS:
        problem = "wasserstein_logistic" if kind == "logistic" else "wasserstein_regression"
        found.append({**answer("wasserstein_dro", "WassersteinDRO", kind, there), "problem": problem, "here": here})
    return [one for one in found if math.isfinite(one["value"])]  # type: ignore[arg-type]  # a number, as made above


if __name__ == "__main__":
    features, labels, targets = data()
    columns = {"features": features.tolist(), "labels": labels.tolist(), "targets": targets.tolist()}
    FILE.write_text(json.dumps({"package": "dro 0.4.3", **columns, "answers": answers()}, indent=1) + "\n")
