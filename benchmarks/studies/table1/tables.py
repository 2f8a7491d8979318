"""The tables of docs/table1.md, from runs and from measurements on instances."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.studies.table1 import bounds
from benchmarks.studies.table1.families import FAMILIES, collect
from benchmarks.studies.table1.growth import Cell, Exponent, Sorted, along_accuracy, along_size, fit, logarithmic_rms
from benchmarks.studies.table1.instances import condition_number, curvatures, storage
from drobench.results.record import Record, Status

LOGARITHMIC = "0.5 to 1; logarithmic in 1/eps"
NON_CONVEX = "0.5; 1, or 0; 1.5 where that is less"
STATED = {
    "midtouch": "",
    "serr": "not in the table",
    "sevr": "m ln(1/eps) and a term in 1/eps; the rest was not at hand",
    "literal": LOGARITHMIC,
    "reduced": "not in the table",
    "kl": LOGARITHMIC,
    "chi2": LOGARITHMIC,
    "kl_sigmoid": NON_CONVEX,
    "kl_sigmoid_adaptive": NON_CONVEX,
    "chi2_sigmoid": NON_CONVEX,
    "chi2_sigmoid_adaptive": NON_CONVEX,
}
CONDITIONED = {
    "kl": ("problem=kl_classification", "problem.gamma=1.0"),
    "chi2": ("problem=chi2_classification", "problem.gamma=2.0"),
}
STORED = {
    "MidTouch": ("solver=midtouch", "solver.full_steps=1"),
    "LightTouch": ("solver=lighttouch",),
    "SERR": ("solver=serr",),
    "SEVR": ("solver=sevr",),
    "GCIVR, literal (W1)": ("solver=gcivr", "reformulation.wasserstein=literal", "reformulation.gamma=0.01"),
    "GCIVR, reduced (W2)": ("solver=gcivr", "reformulation.gamma=0.01"),
}
STORAGE_SIZES = (64, 256, 1024)
WIDTHS = (0.1, 0.03, 0.01, 0.003, 0.001)
CURVATURE_SIZES = (64, 128)


def exponents(sorted_cells: dict[str, Sorted]) -> str:
    """Return one line for each family: both exponents, fitted to all cells that every seed reached."""
    lines = [
        "| method | m | eps | cells fitted | exponent of m | exponent of 1/eps | rms | stated: m; 1/eps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in sorted_cells.items():
        law = fit(found.complete)
        if law is None:
            lines.append(
                f"| {FAMILIES[name].label} | - | - | {len(found.complete)} | - | - | - | {_stated(name, {})} |"
            )
            continue
        sizes = sorted({size for size, _ in found.complete})
        accuracies = sorted({eps for _, eps in found.complete})
        lines.append(
            f"| {FAMILIES[name].label} | {sizes[0]} to {sizes[-1]} | {accuracies[-1]:g} to {accuracies[0]:g} "
            f"| {law.cells} | {_exponent(law.size)} | {_exponent(law.accuracy)} | {law.rms:.2f} "
            f"| {_stated(name, found.complete)} |"
        )
    return "\n".join(lines)


def _stated(name: str, cells: dict[Cell, np.ndarray]) -> str:
    """Return the exponents of the stated bound; where it is a sum, those it has over the very cells measured."""
    if name == "midtouch" and cells:
        return f"{_exponents_of(cells, lambda size, eps: bounds.midtouch(2 * size + 1, eps))} over these cells"
    if name in CONDITIONED and cells:
        condition = condition_number(CONDITIONED[name], max(size for size, _ in cells))
        over = _exponents_of(cells, lambda size, eps: bounds.strongly_convex(size, eps, condition))
        return f"{STATED[name]}. With the measured kappa = {condition:.1f}, over these cells: {over}"
    if name == "literal" and cells:
        hidden = _exponents_of(cells, lambda size, eps: bounds.strongly_convex_hidden(2 * size + 1, eps))
        return f"{STATED[name]}. With kappa = ln(M + 1)/eps: {hidden}"
    return STATED[name]


def _exponents_of(cells: dict[Cell, np.ndarray], bound: bounds.Bound) -> str:
    law = fit({cell: np.array([bound(*cell)] * 2) for cell in cells})
    parts = (None, None) if law is None else (law.size, law.accuracy)
    return "; ".join("-" if part is None else f"{part.value:.2f}" for part in parts)


def by_size(sorted_cells: dict[str, Sorted]) -> str:
    """Return the exponent of m at each accuracy."""
    lines = ["| method | eps: exponent of m |", "|---|---|"]
    for name, found in sorted_cells.items():
        cells = [f"{eps:g}: {_exponent(law.size)}" for eps, law in along_size(found.complete).items()]
        lines.append(f"| {FAMILIES[name].label} | {'; '.join(cells) or '-'} |")
    return "\n".join(lines)


def by_accuracy(sorted_cells: dict[str, Sorted]) -> str:
    """Return the exponent of 1/eps at each size, and how far a power law and a logarithm are from the data."""
    lines = [
        "| method | m: exponent of 1/eps (rms of the power law, rms of a + b ln(1/eps)) | nearer |",
        "|---|---|---|",
    ]
    for name, found in sorted_cells.items():
        items, nearer = [], []
        for size, law in along_accuracy(found.complete).items():
            other = logarithmic_rms({cell: costs for cell, costs in found.complete.items() if cell[0] == size})
            assert other is not None
            items.append(f"{size:g}: {_exponent(law.accuracy)} ({law.rms:.2f}, {other:.2f})")
            nearer.append("power" if law.rms < other else "logarithm")
        logarithms = f"logarithm at {nearer.count('logarithm')} of {len(nearer)} sizes" if nearer else "-"
        lines.append(f"| {FAMILIES[name].label} | {'; '.join(items) or '-'} | {logarithms} |")
    return "\n".join(lines)


def _exponent(exponent: Exponent | None) -> str:
    return "-" if exponent is None else str(exponent)


def not_fitted(sorted_cells: dict[str, Sorted]) -> str:
    """Return the cells that were left out, and why."""
    lines = [
        "| method | not reached by all seeds: m (smallest eps that all reached; the others) | met at the start "
        "| no certified optimum |",
        "|---|---|---|---|",
    ]
    for name, found in sorted_cells.items():
        missed = []
        for size in sorted({size for size, _ in found.censored}):
            reached = [eps for other, eps in found.complete if other == size]
            partly = [f"{eps:g} by {count}" for (other, eps), count in found.censored.items() if other == size]
            missed.append(f"{size} ({min(reached, default=math.inf):g}; {', '.join(partly)})")
        trivial = ", ".join(f"m={size} eps={eps:g}" for size, eps in found.trivial)
        unknown = ", ".join(f"m={size}" for size in sorted({size for size, _ in found.unknown}))
        lines.append(f"| {FAMILIES[name].label} | {', '.join(missed) or '-'} | {trivial or '-'} | {unknown or '-'} |")
    return "\n".join(lines)


def medians(sorted_cells: dict[str, Sorted]) -> str:
    """Return the median calls of every cell that was fitted."""
    lines = ["| method | m | eps: median calls over seeds |", "|---|---|---|"]
    for name, found in sorted_cells.items():
        for size in sorted({size for size, _ in found.complete}):
            cells = sorted(
                ((eps, costs) for (other, eps), costs in found.complete.items() if other == size), reverse=True
            )
            text = "; ".join(f"{eps:g}: {np.median(costs):.0f}" for eps, costs in cells)
            lines.append(f"| {FAMILIES[name].label} | {size} | {text} |")
    return "\n".join(lines)


def curvature_table(sizes: Sequence[int] = CURVATURE_SIZES, widths: Sequence[float] = WIDTHS) -> str:
    """Return the largest curvature of both smoothed forms at the exact solution, and how it grows with 1/gamma."""
    heads = " | ".join(f"gamma {width:g}" for width in widths)
    lines = [f"| form | m | {heads} | exponent of 1/gamma |", "|---" * (len(widths) + 3) + "|"]
    for kind in ("literal", "reduced"):
        for size in sizes:
            found = curvatures(kind, size, widths)
            slope = np.polyfit(-np.log(widths), np.log(found), 1)[0]
            cells = " | ".join(f"{value:.3g}" for value in found)
            lines.append(f"| {kind} | {size} | {cells} | {slope:.2f} |")
    return "\n".join(lines)


def storage_table(sizes: Sequence[int] = STORAGE_SIZES) -> str:
    """Return the numbers that each method keeps, measured, and as `a m + b`."""
    heads = " | ".join(f"m = {size}" for size in sizes)
    lines = [f"| method | {heads} | as a function of m |", "|---" * (len(sizes) + 2) + "|"]
    for label, solver in STORED.items():
        kept = [storage(solver, size) for size in sizes]
        slope, rest = divmod(kept[1] - kept[0], sizes[1] - sizes[0])
        constant = kept[0] - slope * sizes[0]
        straight = not rest and all(slope * size + constant == number for size, number in zip(sizes, kept, strict=True))
        law = f"{slope} m + {constant}" if slope else f"{constant}"
        lines.append(f"| {label} | {' | '.join(map(str, kept))} | {law if straight else 'not linear'} |")
    return "\n".join(lines)


def tuning_table(root: Path) -> str:
    """Return what a tuning sweep chose for each family, and what choosing cost."""
    lines = [
        "| method | settings tried | chosen | calls to the target | calls of all | seconds of all |",
        "|---|---|---|---|---|---|",
    ]
    for name, runs in collect(root).items():
        configs = [record.solver.config for record, _ in runs]
        best, curve = min(runs, key=_calls_to_target)
        varied = [key for key in configs[0] if len({repr(config[key]) for config in configs}) > 1]
        chosen = ", ".join(f"{key}={best.solver.config[key]}" for key in varied)
        spent = sum(int(other["oracle_calls"][-1]) for _, other in runs)
        seconds = sum(record.seconds.solver or 0.0 for record, _ in runs)
        lines.append(
            f"| {FAMILIES[name].label} | {len(runs)} | {chosen} | {int(curve['oracle_calls'][-1])} | {spent} "
            f"| {seconds:.0f} |"
        )
    return "\n".join(lines)


def _calls_to_target(run: tuple[Record, pl.DataFrame]) -> float:
    """Return the calls of a run that its target ended; infinite for one that ended otherwise."""
    record, curve = run
    return float(curve["oracle_calls"][-1]) if record.status is Status.CONVERGED else math.inf
