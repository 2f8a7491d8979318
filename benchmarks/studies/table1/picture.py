"""The picture of docs/table1.md: measured calls with the stated bounds and lower bounds beside them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.drawing import pyplot
from benchmarks.studies.table1 import bounds
from benchmarks.studies.table1.families import FAMILIES
from benchmarks.studies.table1.growth import Sorted
from benchmarks.studies.table1.instances import condition_number, curvatures, storage
from benchmarks.studies.table1.tables import CONDITIONED, STORED

# Okabe and Ito's colours, which all eyes tell apart.
COLOURS = {
    "midtouch": "#E69F00",
    "serr": "#56B4E9",
    "sevr": "#009E73",
    "literal": "#D55E00",
    "reduced": "#0072B2",
    "kl": "#0072B2",
    "chi2": "#CC79A7",
    "kl_sigmoid": "#0072B2",
    "kl_sigmoid_adaptive": "#56B4E9",
    "chi2_sigmoid": "#D55E00",
    "chi2_sigmoid_adaptive": "#CC79A7",
}
MARKERS = dict(zip(COLOURS, "osD^vosovs^", strict=True))
WASSERSTEIN = ("midtouch", "serr", "sevr", "literal", "reduced")
CONVEX = ("kl", "chi2")
NON_CONVEX = ("kl_sigmoid", "kl_sigmoid_adaptive", "chi2_sigmoid", "chi2_sigmoid_adaptive")
# LightTouch keeps what MidTouch keeps.
KEPT = {
    "MidTouch": "midtouch",
    "SERR": "serr",
    "SEVR": "sevr",
    "GCIVR, literal (W1)": "literal",
    "GCIVR, reduced (W2)": "reduced",
}
_WIDTHS = (0.1, 0.03, 0.01, 0.003, 0.001)
_SIZES = (64, 256, 1024)


def draw(found: dict[str, Sorted], path: Path) -> None:
    """Draw six panels: calls against m and against 1/eps, convex and not, curvature, and storage."""
    plt = pyplot()
    condition = condition_number(CONDITIONED["kl"], 1024)
    figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
    sizes, accuracies = np.geomspace(32, 4096, 30), np.geomspace(1e-1, 1e-4, 30)

    panel = axes[0][0]
    for name in WASSERSTEIN:
        _against_size(panel, found, name, 1e-1 if name == "literal" else 1e-3)
    _line(
        panel, sizes, [bounds.strongly_convex_below(int(m), 1e-3, condition) for m in sizes], "lower bound, eps 0.001"
    )
    _finish(panel, "Wasserstein: calls to eps = 0.001 (literal: 0.1)", "samples m", "calls")

    panel = axes[0][1]
    for name in WASSERSTEIN:
        _against_accuracy(panel, found, name, 64 if name == "literal" else 128)
    _line(panel, 1 / accuracies, [bounds.strongly_convex_below(128, e, condition) for e in accuracies], "lower bound")
    hidden = [bounds.strongly_convex_hidden(129, e) for e in accuracies[:12]]
    _line(panel, 1 / accuracies[:12], hidden, "GCIVR's bound with kappa = ln(M + 1)/eps", ":")
    _finish(panel, "Wasserstein, m = 128 (literal: 64)", "1 / eps", "calls", "upper right")
    panel.set_ylim(2e2, 1e7)

    panel = axes[0][2]
    for kind, size in (("literal", 64), ("literal", 128), ("reduced", 64), ("reduced", 128), ("reduced", 1024)):
        values = curvatures(kind, size, _WIDTHS)
        style = {64: "-", 128: "--", 1024: ":"}[size]
        panel.plot(
            _inverse(_WIDTHS), values, style, color=COLOURS[kind], label=f"{kind}, m = {size}", marker=MARKERS[kind]
        )
    _finish(panel, "Largest curvature L at the solution", "1 / gamma", "L")

    panel = axes[1][0]
    for name in CONVEX:
        _against_size(panel, found, name, 1e-5)
    for exponent in (0.5, 1.0):
        anchor = _mean(found["kl"], 128, 1e-5) if "kl" in found else 1.0
        label = f"slope {exponent:g}"
        _line(
            panel, sizes[8:], [anchor * (m / 128) ** exponent for m in sizes[8:]], label, "-." if exponent < 1 else ":"
        )
    below = [bounds.strongly_convex_below(int(m), 1e-5, condition) for m in sizes[8:]]
    _line(panel, sizes[8:], below, f"lower bound, kappa = {condition:.0f}")
    _finish(panel, "KL and chi-square, convex: calls to eps = 1e-5", "samples m", "calls")

    panel = axes[1][1]
    for name in NON_CONVEX:
        _against_accuracy(panel, found, name, 1024)
    fine = np.geomspace(1e-3, 1e-8, 30)
    # For this m and these accuracies the smaller of the two terms of GCIVR's bound is the lower bound itself.
    both = "lower bound in the worst case = GCIVR's bound: sqrt(m)/eps"
    _line(panel, 1 / fine, [bounds.non_convex_below(1024, e) for e in fine], both)
    _finish(
        panel, "KL and chi-square, non-convex, m = 1024", "1 / eps,  squared gradient mapping", "calls", "upper left"
    )
    panel.set_ylim(3e2, 1e9)

    panel = axes[1][2]
    for label, name in KEPT.items():
        kept = [storage(STORED[label], size) for size in _SIZES]
        panel.plot(_SIZES, kept, color=COLOURS[name], marker=MARKERS[name], label=label)
    _finish(panel, "Numbers kept in the state", "samples m", "numbers")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _against_size(axis: Any, found: dict[str, Sorted], name: str, accuracy: float) -> None:
    if name in found:
        cells = {size: costs for (size, eps), costs in found[name].complete.items() if eps == accuracy}
        _points(axis, name, sorted(cells), cells)


def _against_accuracy(axis: Any, found: dict[str, Sorted], name: str, size: int) -> None:
    if name in found:
        cells = {1 / eps: costs for (other, eps), costs in found[name].complete.items() if other == size}
        _points(axis, name, sorted(cells), cells)


def _points(axis: Any, name: str, places: Sequence[float], cells: dict[Any, np.ndarray]) -> None:
    """Draw geometric means over seeds, and the range of all of them."""
    if not places:
        return
    logarithms = np.log(np.stack([cells[place] for place in places]))
    means = np.exp(logarithms.mean(axis=1))
    # Where all seeds agree, rounding may put the mean outside their range.
    below = np.maximum(means - np.exp(logarithms.min(axis=1)), 0.0)
    above = np.maximum(np.exp(logarithms.max(axis=1)) - means, 0.0)
    label = FAMILIES[name].label.replace("GCIVR, Wasserstein", "GCIVR").replace(", Wasserstein", "")
    label = label.replace(", non-convex", "")
    axis.errorbar(
        places, means, yerr=[below, above], color=COLOURS[name], marker=MARKERS[name], markersize=5, label=label
    )


def _mean(found: Sorted, size: int, accuracy: float) -> float:
    return math.exp(float(np.log(found.complete[size, accuracy]).mean()))


def _line(axis: Any, places: Any, values: Sequence[float], label: str, style: str = "--") -> None:
    axis.plot(places, values, style, color="black", linewidth=1.2, label=label)


def _inverse(values: Sequence[float]) -> list[float]:
    return [1 / value for value in values]


def _finish(axis: Any, title: str, below: str, left: str, legend: str = "best") -> None:
    from matplotlib.ticker import NullFormatter

    axis.set(xscale="log", yscale="log", xlabel=below, ylabel=left)
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=7.5, loc=legend)
