"""Other packages on the same instances, each installed into a virtual environment that is deleted afterwards."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from benchmarks.speed.wasserstein import meter
from benchmarks.speed.wasserstein.methods import FLIP_COST, RADIUS, problem, repeats_for
from benchmarks.speed.wasserstein.outcome import ONE_THREAD, TIME_LIMIT, Outcome, last_line

# These texts run under another interpreter, with `X` and `y` loaded and the meter defined.

_DRO = """
from dro.linear_model.wasserstein_dro import WassersteinDRO
def fit():
    model = WassersteinDRO(X.shape[1], "logistic", fit_intercept=False, solver="CLARABEL")
    model.update({"eps": RADIUS, "p": 2, "kappa": FLIP_COST})
    return model.fit(X, y)["theta"]
"""

# With labels it samples only for the squared l2 cost, and a flip cost near 1 makes its optimiser overflow: what can be
# run is its default, squared cost and certain labels, with the radius squared accordingly.
_SKWDRO_ENTROPIC = """
import torch
torch.set_num_threads(1)
from skwdro.linear_models import LogisticRegression
def fit():
    model = LogisticRegression(rho=RADIUS**2, fit_intercept=False, cost="t-NLC-2-2", random_state=0)
    return model.fit(X, y).coef_
"""

# The estimator's solver="dedicated" has a flip cost of 1000 written into it; the function behind it takes any.
_SKWDRO_EXACT = """
from skwdro.solvers.specific_solvers import WDROLogisticSpecificSolver
def fit():
    point, *_ = WDROLogisticSpecificSolver(rho=RADIUS, kappa=FLIP_COST, X=X, y=y, fit_intercept=False)
    return point
"""

_PACKAGES = {
    "dro": [("dro, WassersteinDRO", _DRO, "the same problem, textbook program")],
    "skwdro": [
        ("skwdro, entropic", _SKWDRO_ENTROPIC, "another problem: entropic, squared cost, no flips; its F(x) as it is"),
        ("skwdro, dedicated", _SKWDRO_EXACT, "the same problem, one constraint at a time"),
    ],
}


def measure_packages(sizes: list[int], features: int, folder: Path) -> list[Outcome]:
    """Install each package and let it solve every size; what cannot be done becomes a note."""
    outcomes = []
    for package, programs in _PACKAGES.items():
        interpreter, failure = _install(package, folder)
        for method, text, note in programs:
            for rows in sizes:
                if failure:
                    outcomes.append(Outcome(method, rows, note=f"not installed: {failure}"))
                else:
                    outcomes.append(_foreign(interpreter, method, text, note, rows, features, folder))
    return outcomes


def _install(package: str, folder: Path) -> tuple[Path, str]:
    place = folder / package
    interpreter = place / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, capture_output=True, text=True)
        command = [str(interpreter), "-m", "pip", "install", "--quiet", "--no-input", package]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.CalledProcessError as error:
        return interpreter, last_line(error.stderr)
    except subprocess.TimeoutExpired:
        return interpreter, f"longer than {TIME_LIMIT:.0f} s"
    return interpreter, ""


def _foreign(interpreter: Path, method: str, text: str, note: str, rows: int, features: int, folder: Path) -> Outcome:
    instance = problem(rows, features)
    signed = instance.form.margins.signed_rows.numpy()
    # Only y z matters, so any labels will do if the rows follow; a classifier wants to see both.
    labels = np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    data, answer, script = (folder / name for name in ("data.npz", "answer.json", "fit.py"))
    np.savez(data, X=signed * labels[:, None], y=labels)
    answer.unlink(missing_ok=True)
    script.write_text(_foreign_script(text, data, answer, repeats_for(rows)))
    try:
        subprocess.run(
            [str(interpreter), str(script)],
            check=True,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            env={**os.environ, **ONE_THREAD},
        )
    except subprocess.CalledProcessError as error:
        return Outcome(method, rows, note=f"failed: {last_line(error.stderr)}")
    except subprocess.TimeoutExpired:
        return Outcome(method, rows, note=f"stopped after {TIME_LIMIT:.0f} s")
    found = json.loads(answer.read_text())
    point = torch.tensor(found.pop("point"), dtype=torch.float64)
    return Outcome(method, rows, value=float(instance.form.value(point)), note=note, **found)


def _foreign_script(text: str, data: Path, answer: Path, repeats: int) -> str:
    """Return a program that begins with the meter and has nothing else of ours."""
    imports = "import json\nimport numpy as np\n"
    work = (
        f"RADIUS, FLIP_COST = {RADIUS}, {FLIP_COST}\n"
        f"loaded = np.load({str(data)!r})\nX, y = loaded['X'], loaded['y']\n{text}\n"
        "readings, point = [], None\n"
        f"for _ in range({repeats}):\n    meter = Meter()\n    point = fit()\n    readings.append(meter.read())\n"
        "point = [float(number) for number in np.ravel(point)]\n"
        f"Path({str(answer)!r}).write_text(json.dumps({{**least_of(readings), 'point': point}}))\n"
    )
    return f"{inspect.getsource(meter)}\n\n{imports}\n{work}"
