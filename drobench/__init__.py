"""drobench: benchmarks for distributionally robust and heavily constrained learning.

    from drobench import run, runs, leaderboard, plot, load_solution

    record = run("solver=gcivr", "problem=kl_classification", "dataset=breast_cancer", seed=3)

Everything here is loaded on first use: `import drobench` itself is instant.
"""

from typing import Any

__version__ = "0.3.0.dev0"

_HOMES = {
    "run": "drobench.app.api",
    "runs": "drobench.app.api",
    "plot": "drobench.app.api",
    "leaderboard": "drobench.app.api",
    "load_solution": "drobench.app.api",
    "PLUGIN_API": "drobench.registry",
    "hookimpl": "drobench.registry",
    "SolverEntry": "drobench.registry",
    "ProblemEntry": "drobench.registry",
    "DatasetEntry": "drobench.registry",
    "ModelEntry": "drobench.registry",
    "LossEntry": "drobench.registry",
    "ReformulationEntry": "drobench.registry",
    "LoggerEntry": "drobench.registry",
}
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604  # names of lazily loaded objects


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'drobench' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
