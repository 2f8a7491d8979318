"""Whether a method that calls itself monotone ever returns a point that is worse than its start.

    python -m benchmarks.studies.never_worse [--small] [--only solver=newton --only dataset=digits]

Every problem that fits, on every dataset that is embedded or made from a seed, with all defaults, several budgets and
seeds, and every method with a setting `monotone`, or that is so without one. Compared is the objective of the problem
itself; for constrained problems the exact penalty, objective plus weight times largest surrogate violation, where a
projection at the end is applied first. Stages depend on the budget, so that each budget is a run of its own. Prints the
number of cases and every case above its start, with failures among them. Exits with 1 if there is one.
"""

import argparse
import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from drobench.app.assemble import Assembly, assemble
from drobench.app.config import compose, hydra_ready, register, resolve
from drobench.app.loading import LastDataset
from drobench.app.optimum import Reference
from drobench.app.prepare import prepare
from drobench.errors import DrobenchError
from drobench.objective.forms import Constrained
from drobench.registry import Catalogue, load_catalogue
from drobench.training.run_log import RunLog
from drobench.training.trainer import train

# Whatever two sums over the same rows may differ by.
ROUNDING = 1e-9
BUDGETS = (1, 2, 3, 5, 10, 20)
SEEDS = range(5)
ALWAYS = ("lbfgs", "newton", "preconditioned_gcivr")
"""Methods that return only what they have measured, and have no setting for it."""
DATASETS = {
    "breast_cancer": (),
    "digits": (),
    "wine": (),
    "diabetes": (),
    "synthetic": (),
    # A part of the rows: the whole table would take most of the time.
    "adult_twin": ("dataset.rows=5000",),
    "communities_twin": (),
    "mslr_twin": (),
}
PROBLEMS = (
    ("problem=kl_classification",),
    ("problem=kl_classification", "problem.gamma=0.2"),
    ("problem=kl_classification", "problem.variant=ball"),
    ("problem=chi2_classification",),
    ("problem=chi2_classification", "problem.variant=exact"),
    ("problem=chi2_classification", "problem.variant=ball"),
    ("problem=cvar_classification",),
    ("problem=cvar_classification", "problem.level=0.5"),
    ("problem=cvar_classification", "problem.variant=kl"),
    ("problem=cressie_read_classification",),
    ("problem=cressie_read_classification", "problem.variant=penalty"),
    ("problem=total_variation_classification",),
    ("problem=spectral_classification",),
    ("problem=kl_regression", "problem.gamma=5"),
    ("problem=kl_regression", "problem.gamma=5", "problem.loss=quantile"),
    ("problem=chi2_regression",),
    ("problem=cvar_regression",),
    ("problem=cressie_read_regression",),
    ("problem=total_variation_regression",),
    ("problem=spectral_regression",),
    ("problem=wasserstein_regression",),
    ("problem=group_classification",),
    ("problem=group_classification", "problem.variant=penalty"),
    ("problem=wasserstein_logistic",),
    ("problem=noisy_group_fairness",),
    ("problem=intersectional_fairness",),
    ("problem=ranking_fairness",),
    ("problem=constrained_quadratic",),
)


@dataclass(frozen=True)
class Outcome:
    """A case, with the objective at its start and at what was returned; `None` where the run failed."""

    words: Sequence[str]
    start: float
    returned: float | None
    reason: str = ""

    @property
    def worse(self) -> bool:
        """Whether that is above the start."""
        return self.returned is None or not self.returned <= self.start + ROUNDING * (1.0 + abs(self.start))


def monotone_methods(catalogue: Catalogue) -> list[str]:
    """Return the solvers with a setting `monotone` that is on, and those without need of one."""
    return [
        name
        for name, found in catalogue.solvers.items()
        if name in ALWAYS
        or any(item.name == "monotone" and item.default is True for item in fields(found.entry.config))
    ]


def objective(assembly: Assembly, point: Tensor) -> float:
    """Return what is compared, at the problem's own parameters."""
    form = assembly.problem.form
    value = float(form.value(point))
    weight = getattr(assembly.route.form, "penalty_weight", None)
    if isinstance(form, Constrained) and weight is not None:
        value += weight * max(0.0, float(form.constraints.surrogates(point[None], slice(None))[0].max()))
    return value


def outcome(words: Sequence[str], catalogue: Catalogue, datasets: LastDataset) -> Outcome | None:
    """Run one case; `None` where problem and dataset do not fit."""
    with hydra_ready():
        config = resolve(compose(list(words), catalogue))
    prepared = prepare(config, catalogue, datasets)
    if prepared.refusal is not None:
        return None
    try:
        assembly = assemble(prepared, Path(tempfile.gettempdir()), Reference(None, "not asked for"))
    except DrobenchError:
        return None
    try:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            start = objective(assembly, assembly.route.recover(assembly.task.start))
            module = train(assembly.task, config.trainer, RunLog(), Path(folder))
            return Outcome(words, start, objective(assembly, module.final["last"][1]))
    except Exception as error:  # a case that fails is one to be shown, whatever it raises
        return Outcome(words, float("nan"), None, f"{type(error).__name__}: {error}"[:200])


def cases(catalogue: Catalogue, small: bool) -> Iterator[tuple[str, ...]]:
    """Return the words of every case."""
    methods = ["gcivr"] if small else monotone_methods(catalogue)
    datasets = {"breast_cancer": (), "synthetic": ("dataset.rows=500",)} if small else DATASETS
    budgets, seeds = ((2, 10), (0,)) if small else (BUDGETS, SEEDS)
    for (name, settings), problem, method, seed, passes in product(datasets.items(), PROBLEMS, methods, seeds, budgets):
        rest = (f"solver={method}", f"seed={seed}", f"budget.passes={passes}", "evaluation.every_passes=1e9")
        yield (f"dataset={name}", *settings, *problem, *rest)


def main() -> int:
    """Print the cases above their start; return 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="one method, two datasets, two budgets, one seed")
    parser.add_argument("--only", default=[], action="append", help="cases with this among their words, repeatable")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("pytorch_lightning", "pytorch_lightning.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    catalogue, datasets = load_catalogue(), LastDataset()
    register(catalogue)
    done = lower = worse = 0
    unfit: set[tuple[str, ...]] = set()
    for words in cases(catalogue, options.small):
        pair = tuple(word for word in words if word.startswith(("dataset", "problem", "solver")))
        if pair in unfit or not set(options.only) <= set(words):
            continue
        found = outcome(words, catalogue, datasets)
        if found is None:
            unfit.add(pair)
            continue
        done += 1
        lower += found.returned is not None and found.returned < found.start
        if found.worse:
            worse += 1
            shown = found.reason or f"{found.start:.8g} -> {found.returned:.8g}"
            print(f"above its start: {' '.join(found.words)}: {shown}", flush=True)
    print(f"{done} cases, {lower} below their start, {worse} above it")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
